package commander

import (
	"context"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/fault"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/store"
)

// The bugs that builds with the tag planted have where they are told to (fault.Planted). In every other
// build these functions do nothing.

// plantedWay breaks V4 (what is not known is sent again without a look) and V6 (nobody waits as long as
// the carrier asks).
func plantedWay(way rules.Next) rules.Next {
	switch {
	case fault.Planted("V4") && way.State == simwarden.CommandVerifying, fault.Planted("V6") && way.Wait > 0:
		way.State, way.Wait = simwarden.CommandQueued, 10*time.Millisecond
	}
	return way
}

// plantedFacts breaks V5: what is kept is not what the decision was made from.
func plantedFacts(f rules.Facts) rules.Facts {
	if fault.Planted("V5") {
		f.NowAt = f.NowAt.Add(-time.Hour)
	}
	return f
}

// plantedRelease breaks V3: a claim is given back while its request is still to be sent, so that another
// node sends at the same time.
func (m *Commander) plantedRelease(ctx context.Context, t task) error {
	if !fault.Planted("V3") {
		return nil
	}
	return m.Store.InWorkTx(ctx, func(tx *store.Tx) error {
		next := t.cmd
		next.State, next.RunAt = simwarden.CommandQueued, tx.At
		_, err := tx.MoveCommand(ctx, t.cmd, next)
		return err
	})
}
