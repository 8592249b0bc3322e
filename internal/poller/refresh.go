package poller

import (
	"context"
	"errors"
	"fmt"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/gateway"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/internal/usage"
)

// ErrListedOnly says that a carrier tells something in lists of many SIMs alone.
var ErrListedOnly = errors.New("the carrier tells this only in its list of all SIMs, which is read at its own times")

// Refreshed is what came of one check that a person asked for.
type Refreshed struct {
	Check   simwarden.CheckKind
	Reading simwarden.Reading // where Err is nil
	// Err is a *carrier.Error, ErrListedOnly, or that of a driver that breaks.
	Err error
}

// Refresh reads one SIM now for a person who waits (G2): the state, and what else its carrier tells.
// Limits do not hold it; it is counted as manual_refresh. What is read is booked and judged as a poll's
// reading is, of a SIM whose polling is paused or closed too, which stays so; the next polls come when
// they would have come. It stops at the first check that the carrier does not answer. The error is
// store.ErrNotFound or the database's.
func Refresh(ctx context.Context, s *store.Store, g Gateway, account simwarden.AccountID, id simwarden.SIMID) ([]Refreshed, error) {
	info, err := g.Info(account)
	if err != nil {
		return nil, err
	}
	refs, err := s.PollRefs(ctx, []simwarden.SIMID{id})
	if err != nil {
		return nil, err
	}
	if len(refs) == 0 {
		return nil, fmt.Errorf("sim %d: %w", id, store.ErrNotFound)
	}
	sink, ref := Database{Store: s}, refs[0]
	var out []Refreshed
	for kind := range kinds {
		if !info.CanRead(kindAt[kind]) {
			continue
		}
		call := gateway.Call{Operation: operationAt[kind], Purpose: simwarden.PurposeManualRefresh}
		reading, err := askOne(ctx, g, account, call, kind, ref)
		switch {
		case errors.Is(err, errNoPart):
			out = append(out, Refreshed{Check: kindAt[kind], Err: ErrListedOnly})
			continue
		case err != nil:
			var e *carrier.Error
			if as, _ := outcomeOf(kindAt[kind], err, false); as == outClosed && errors.As(err, &e) {
				if err := sink.Close(ctx, id, e); err != nil {
					return out, err
				}
			}
			return append(out, Refreshed{Check: kindAt[kind], Err: err}), nil
		case !speaksOf(reading, kind):
			return append(out, Refreshed{Check: kindAt[kind], Err: fmt.Errorf("the carrier's answer does not tell the %s", kindAt[kind])}), nil
		}
		if ref.Key == "" && reading.Key != "" {
			ref.Key = reading.Key
			if err := sink.Learn(ctx, account, []store.LearnedKey{{SIMID: id, Key: reading.Key}}); err != nil {
				return out, err
			}
		}
		if err := sink.keepAsked(ctx, id, reading, kind); err != nil {
			return out, err
		}
		out = append(out, Refreshed{Check: kindAt[kind], Reading: reading})
	}
	return out, nil
}

// keepAsked takes in a reading that a person asked for: whoever polls the SIM keeps its due times.
func (d Database) keepAsked(ctx context.Context, id simwarden.SIMID, reading simwarden.Reading, kind int) error {
	return d.Store.InTx(ctx, func(tx *store.Tx) error {
		obs := []store.Observed{{SIMID: id, Reading: reading}}
		if _, err := usage.Book(ctx, tx, obs); err != nil {
			return err
		}
		if _, err := reconcile.Observe(ctx, tx, obs); err != nil {
			return err
		}
		if kind != 0 {
			return nil
		}
		return tx.ClearAlert(ctx, missingKey(id), "system") // the carrier knows it
	})
}
