package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// The bound of what one person may ask of carriers at once, past the limits of their groups (G2): so many
// calls in a row, and one more for each PersonCallEvery.
const (
	PersonCalls     = 30
	PersonCallEvery = 2 * time.Second
)

// TooManyCalls says that a person has asked carriers as often as one may for now.
type TooManyCalls struct{ Wait time.Duration }

// Error tells when to ask again.
func (e *TooManyCalls) Error() string {
	return fmt.Sprintf("you may ask carriers %d times in a row and once every %s after that, since such calls pass the limits; ask again in %s",
		PersonCalls, PersonCallEvery, e.Wait.Round(time.Second))
}

// TakePersonCall counts one call of a person to a carrier. The error is a *TooManyCalls where the person has
// to wait; it is counted by the database's clock, for all nodes together.
func (tx *Tx) TakePersonCall(ctx context.Context, actor string) error {
	// A bucket that leaks one call each PersonCallEvery, kept as the instant at which it is empty.
	full := (PersonCalls - 1) * PersonCallEvery
	var free time.Time
	err := one(tx.QueryRow(ctx, `
		INSERT INTO person_call AS p (actor, free_at) VALUES ($1, app_now() + make_interval(secs => $2))
		ON CONFLICT (actor) DO UPDATE SET free_at = greatest(p.free_at, app_now()) + make_interval(secs => $2)
			WHERE p.free_at <= app_now() + make_interval(secs => $3)
		RETURNING free_at`, actor, PersonCallEvery.Seconds(), full.Seconds()), &free)
	if !errors.Is(err, ErrNotFound) {
		if err != nil {
			err = fmt.Errorf("count a person's calls: %w", err)
		}
		return err
	}
	var waitSeconds float64
	if err := tx.QueryRow(ctx, `SELECT extract(epoch FROM free_at - app_now())::float8 - $2 FROM person_call WHERE actor = $1`,
		actor, full.Seconds()).Scan(&waitSeconds); err != nil {
		return fmt.Errorf("count a person's calls: %w", err)
	}
	return &TooManyCalls{Wait: max(time.Duration(waitSeconds*float64(time.Second)), time.Second)}
}
