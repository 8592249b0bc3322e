package poller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/internal/usage"
)

// Sink takes in what was read. It is called from many goroutines, but for one account's shards and
// for one account's list from one each.
type Sink interface {
	// Keep writes readings of one account with their next due times. Rows come in any order, and a
	// SIM may be in several. An error says that nothing can be written now and that the same rows
	// may be given again; what a single row's fault is, is in Kept.
	Keep(ctx context.Context, fence store.PollFence, rows []store.PollRow) (Kept, error)
	// Learn keeps carriers' names for SIMs.
	Learn(ctx context.Context, account simwarden.AccountID, keys []store.LearnedKey) error
	// Close closes the polling of a SIM whose state check was answered by an error that says so (P5).
	Close(ctx context.Context, id simwarden.SIMID, e *carrier.Error) error
	// Missing tells of a SIM that the carrier did not know at two checks in a row, Found that it is
	// known again.
	Missing(ctx context.Context, account simwarden.AccountID, id simwarden.SIMID) error
	Found(ctx context.Context, id simwarden.SIMID) error
	// SetAside tells of a SIM whose readings cannot be taken in (F5).
	SetAside(ctx context.Context, account simwarden.AccountID, id simwarden.SIMID, because error) error
}

// Kept is what became of the rows of one call.
type Kept struct {
	Touched   int // said nothing new
	Judged    int // went through booking and judgement
	Lost      int // of shards or a list that are another's by now
	Anomalies []simwarden.SIMID
	Failed    []Failure
}

// Failure is a row that cannot be taken in, others aside.
type Failure struct {
	Row store.PollRow
	Err error
}

// Database is the sink that keeps readings in the store: unchanged ones by one statement a batch,
// the others through booking and judgement.
type Database struct{ Store *store.Store }

const (
	touchBatch = 1000
	judgeBatch = 500
)

// Keep writes; see Sink.
func (d Database) Keep(ctx context.Context, fence store.PollFence, rows []store.PollRow) (Kept, error) {
	var kept Kept
	rest, err := d.touch(ctx, fence, rows, &kept)
	if err != nil {
		return kept, err
	}
	for len(rest) > 0 {
		var batch []store.PollRow
		batch, rest = oneEach(rest, judgeBatch)
		if err := d.judge(ctx, fence, batch, &kept); err != nil {
			return kept, err
		}
	}
	return kept, nil
}

// touch writes what is as known and gives the rest, sorted by SIM. It may change the order of rows.
func (d Database) touch(ctx context.Context, fence store.PollFence, rows []store.PollRow, kept *Kept) ([]store.PollRow, error) {
	byKind, rest := sorted(rows)
	for k := range byKind {
		for todo := byKind[k]; len(todo) > 0; {
			var batch []store.PollRow
			batch, todo = oneEach(todo, touchBatch)
			done, err := d.Store.Touch(ctx, fence, kindAt[k], batch)
			if err != nil {
				return nil, err
			}
			if len(done.Missed) == 0 {
				kept.Touched += len(batch)
				continue
			}
			for _, r := range batch {
				switch {
				case !done.Missed[r.SIMID]:
					kept.Touched++
				case !done.Fenced, fence.Lease == nil && !done.Held[r.Shard]:
					kept.Lost++
				default:
					rest = append(rest, r)
				}
			}
		}
	}
	slices.SortStableFunc(rest, bySIM)
	return rest, nil
}

// sorted gives the rows that speak of one kind alone, by kind and sorted by SIM, and the others. A
// page of a list has rows of one kind, most often in order: those are neither copied nor moved.
func sorted(rows []store.PollRow) (byKind [kinds][]store.PollRow, others []store.PollRow) {
	if len(rows) == 0 {
		return byKind, nil
	}
	plain := func(r store.PollRow) (int, bool) {
		k, only := onlyKind(r.Reading)
		return k, only && kindAt[k] == r.Kind
	}
	first, ok := plain(rows[0])
	alike := ok && !slices.ContainsFunc(rows[1:], func(r store.PollRow) bool { k, ok := plain(r); return !ok || k != first })
	if alike {
		byKind[first] = rows
	} else {
		for _, r := range rows {
			if k, ok := plain(r); ok {
				byKind[k] = append(byKind[k], r)
			} else {
				others = append(others, r)
			}
		}
	}
	for _, of := range byKind {
		if !slices.IsSortedFunc(of, bySIM) {
			slices.SortStableFunc(of, bySIM)
		}
	}
	return byKind, others
}

func bySIM(a, b store.PollRow) int { return cmp.Compare(a.SIMID, b.SIMID) }

// oneEach splits sorted rows into up to n with each SIM once, and the others, both sorted.
func oneEach(rows []store.PollRow, n int) (batch, rest []store.PollRow) {
	n = min(n, len(rows))
	again := 1 // the first row of the same SIM as the one before
	for again < n && rows[again].SIMID != rows[again-1].SIMID {
		again++
	}
	if again >= n {
		return rows[:n:n], rows[n:]
	}
	for i, r := range rows {
		if len(batch) == n {
			return batch, append(rest, rows[i:]...)
		}
		if len(batch) > 0 && batch[len(batch)-1].SIMID == r.SIMID {
			rest = append(rest, r)
			continue
		}
		batch = append(batch, r)
	}
	return batch, rest
}

// onlyKind gives the one kind that a reading speaks of.
func onlyKind(r simwarden.Reading) (int, bool) {
	switch {
	case r.State != nil && r.Usage == nil && r.RealName == nil:
		return 0, true
	case r.State == nil && r.Usage != nil && r.RealName == nil:
		return 1, true
	case r.State == nil && r.Usage == nil && r.RealName != nil:
		return 2, true
	}
	return 0, false
}

// judge takes a batch through booking and judgement in one transaction. Where a row's own fault
// breaks it, the halves are tried, down to the one row that is at fault (F5, F16).
func (d Database) judge(ctx context.Context, fence store.PollFence, batch []store.PollRow, kept *Kept) error {
	judged, lost, booked, err := d.judgeAll(ctx, fence, batch)
	switch {
	case err == nil:
		kept.Judged, kept.Lost = kept.Judged+judged, kept.Lost+lost
		kept.Anomalies = append(kept.Anomalies, booked.Anomalies...)
		return nil
	case ctx.Err() != nil, !errors.As(err, new(panicked)) && store.IsUnavailable(err):
		return err
	case len(batch) == 1:
		kept.Failed = append(kept.Failed, Failure{Row: batch[0], Err: err})
		return nil
	}
	half := len(batch) / 2
	if err := d.judge(ctx, fence, batch[:half], kept); err != nil {
		return err
	}
	return d.judge(ctx, fence, batch[half:], kept)
}

// panicked is a panic in our own code, met while a batch was judged.
type panicked struct{ what any }

func (p panicked) Error() string { return fmt.Sprintf("panic: %v", p.what) }

func (d Database) judgeAll(ctx context.Context, fence store.PollFence, batch []store.PollRow) (judged, lost int, booked usage.Booked, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = panicked{r}
		}
	}()
	err = d.Store.InTx(ctx, func(tx *store.Tx) error {
		held, any, err := tx.FenceHolds(ctx, fence)
		if err != nil {
			return err
		}
		ours := make([]store.PollRow, 0, len(batch))
		obs := make([]store.Observed, 0, len(batch))
		for _, r := range batch {
			if any && (fence.Lease != nil || held[r.Shard]) {
				ours = append(ours, r)
				obs = append(obs, store.Observed{SIMID: r.SIMID, Reading: r.Reading})
			}
		}
		judged, lost = len(ours), len(batch)-len(ours)
		if len(ours) == 0 {
			return nil
		}
		// Booking locks the SIMs; the judgement may then ask for a reading sooner than is due.
		if booked, err = usage.Book(ctx, tx, obs); err != nil {
			return err
		}
		if err := tx.WriteDues(ctx, ours); err != nil {
			return err
		}
		_, err = reconcile.Observe(ctx, tx, obs)
		return err
	})
	return judged, lost, booked, err
}

// Learn keeps names; see Sink.
func (d Database) Learn(ctx context.Context, account simwarden.AccountID, keys []store.LearnedKey) error {
	_, err := d.Store.LearnKeys(ctx, account, keys)
	return err
}

// Close closes polling; see Sink.
func (d Database) Close(ctx context.Context, id simwarden.SIMID, e *carrier.Error) error {
	return d.Store.InTx(ctx, func(tx *store.Tx) error {
		sim, err := tx.LockSIM(ctx, id)
		if err != nil || !sim.ClosedAt.IsZero() {
			return err
		}
		return reconcile.CloseRead(ctx, tx, sim, e.Extended, "a state check was answered with "+string(e.Class)+", rule "+e.Rule)
	})
}

func missingKey(id simwarden.SIMID) string { return fmt.Sprintf("%s:%d", store.AlertNotFound, id) }

// Missing raises an alert; see Sink.
func (d Database) Missing(ctx context.Context, account simwarden.AccountID, id simwarden.SIMID) error {
	return d.Store.InTx(ctx, func(tx *store.Tx) error {
		sim, err := tx.LockSIM(ctx, id)
		if err != nil {
			return err
		}
		opened, err := tx.RaiseNew(ctx, []store.Alert{{Kind: store.AlertNotFound, Key: missingKey(id), AccountID: account, SIMID: id,
			Message: "the carrier does not know SIM " + sim.ICCID.String() + ", at two checks in a row; nothing is concluded from it"}})
		if err != nil || !opened[missingKey(id)] {
			return err
		}
		return tx.AddEvents(ctx, []store.NewEvent{{Kind: store.EventNotFound, SIMID: id, AccountID: account, Actor: "carrier"}})
	})
}

// Found clears the alert; see Sink.
func (d Database) Found(ctx context.Context, id simwarden.SIMID) error {
	return d.Store.InTx(ctx, func(tx *store.Tx) error { return tx.ClearAlert(ctx, missingKey(id), "system") })
}

// SetAside raises an alert; see Sink.
func (d Database) SetAside(ctx context.Context, account simwarden.AccountID, id simwarden.SIMID, because error) error {
	return d.Store.Raise(ctx, store.Alert{Kind: store.AlertRowSetAside, Key: fmt.Sprintf("%s:poll:%d", store.AlertRowSetAside, id), AccountID: account, SIMID: id,
		Message: fmt.Sprintf("readings of this SIM cannot be taken in and wait for %s: %v", setAsideFor, because)})
}

// setAsideFor is how long a SIM waits whose readings cannot be taken in.
const setAsideFor = time.Hour

// Discard is the sink without a database: what the loop costs by itself, the ceiling of a benchmark.
type Discard struct{}

// Keep counts the rows as touched.
func (Discard) Keep(_ context.Context, _ store.PollFence, rows []store.PollRow) (Kept, error) {
	return Kept{Touched: len(rows)}, nil
}

// Learn does nothing.
func (Discard) Learn(context.Context, simwarden.AccountID, []store.LearnedKey) error { return nil }

// Close does nothing.
func (Discard) Close(context.Context, simwarden.SIMID, *carrier.Error) error { return nil }

// Missing does nothing.
func (Discard) Missing(context.Context, simwarden.AccountID, simwarden.SIMID) error { return nil }

// Found does nothing.
func (Discard) Found(context.Context, simwarden.SIMID) error { return nil }

// SetAside does nothing.
func (Discard) SetAside(context.Context, simwarden.AccountID, simwarden.SIMID, error) error {
	return nil
}
