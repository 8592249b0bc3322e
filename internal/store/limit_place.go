package store

import (
	"context"
	"fmt"
	"time"
)

// PlaceAsk asks for places among a carrier's calls at a time, for one node (G2, V7).
type PlaceAsk struct {
	Key    string // the group or account whose calls are counted together
	Holder string // the node, unique
	Cap    int
	// InUse are calls under way, which keep their places; Wanted is how many more are asked for. With
	// neither, the node gives all back.
	InUse, Wanted int
	// For is how long the node holds the places without asking again. It is longer than any call by
	// what remains for beginning one.
	For time.Duration
}

// PlaceLease is what a node holds. Allowed is how many calls it may have under way; below Held, other
// nodes wait for a first place.
type PlaceLease struct {
	Held, Allowed int
}

// placeWait is how long a node that holds no place counts as waiting without asking again.
const placeWait = time.Second

// TakePlaces leases places: never more than the cap to all nodes together, whatever each of them
// knows. A node that died keeps its places until the time of its last ask has passed.
func (s *Store) TakePlaces(ctx context.Context, ask PlaceAsk) (PlaceLease, error) {
	var l PlaceLease
	err := s.work.QueryRow(ctx, `SELECT held, allowed FROM take_places($1, $2, $3, $4, $5, $6, $7)`,
		ask.Key, ask.Holder, ask.Cap, ask.InUse, ask.Wanted, ask.For.Seconds(), placeWait.Seconds()).Scan(&l.Held, &l.Allowed)
	if err != nil {
		return PlaceLease{}, fmt.Errorf("take places of %s: %w", ask.Key, err)
	}
	return l, nil
}
