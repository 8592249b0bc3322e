// Package usage turns readings of carriers' counters into deltas, and books them: on the SIM's
// lifetime, on its daily series and on the subscriptions that bear them, inside the caller's
// transaction (U1-U5, L5).
package usage

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/fault"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/store"
)

// lateFor is how long after its end a subscription still bears usage that arrives late (U4).
const lateFor = 62 * 24 * time.Hour

// Booked is what came of the readings.
type Booked struct {
	// Grew are the SIMs that used something, Anomalies those whose counter cannot be believed.
	Grew, Anomalies []simwarden.SIMID
	DeltaBytes      int64
	LateBytes       int64
	// Exhausted are the subscriptions whose allowance was used up by these readings.
	Exhausted []simwarden.SubscriptionID
}

// Book is BookWithin with DefaultBound.
func Book(ctx context.Context, tx *store.Tx, obs []store.Observed) (Booked, error) {
	return BookWithin(ctx, tx, obs, DefaultBound())
}

// BookWithin locks the SIMs of all readings in the order of their ids and books the usage of those
// readings that speak of it; see Advance for what counts. A SIM that does not exist is left out;
// each may appear once. Readings without usage are locked only, so that what follows for them in
// the same transaction finds the locks in order.
//
// A delta belongs to the instant for which the carrier says that the figure is true. It is spent on
// the asset's subscriptions in force then. Where those have ended since, or their allowance has been
// filled again since, it is late (U4): the ended one bears it, a refilled one does not, since what
// it bore of that period is gone; either way an event tells of it. What is used after the end of the
// last main plan is the next one's, which is about to be started, or begins by it (L4).
//
// It marks the observations as odd whose anomaly nobody had been told of before (F29): reconcile.Observe
// takes them next.
func BookWithin(ctx context.Context, tx *store.Tx, obs []store.Observed, bound Bound) (Booked, error) {
	readings := make(map[simwarden.SIMID]simwarden.Reading, len(obs))
	var ids, spend []simwarden.SIMID
	for _, o := range obs {
		ids = append(ids, o.SIMID)
		if o.Reading.Usage != nil {
			spend = append(spend, o.SIMID)
			readings[o.SIMID] = o.Reading
		}
	}
	if len(ids) == 0 {
		return Booked{}, nil
	}
	slices.Sort(ids)
	states, subs, err := tx.LockUsage(ctx, ids, spend, lateFor)
	if err != nil {
		return Booked{}, fmt.Errorf("book usage: %w", err)
	}
	b := booking{subs: map[store.Asset][]*store.BearingSubscription{}, stays: map[store.Asset][]store.PoolStay{}}
	for i := range subs {
		b.subs[subs[i].Asset] = append(b.subs[subs[i].Asset], &subs[i])
	}
	if err := b.reset(ctx, tx); err != nil {
		return Booked{}, fmt.Errorf("book usage: %w", err)
	}
	if len(spend) > 0 {
		stays, err := tx.PoolStays(ctx, spend, lateFor)
		if err != nil {
			return Booked{}, fmt.Errorf("book usage: %w", err)
		}
		for _, s := range stays {
			b.stays[s.Asset] = append(b.stays[s.Asset], s)
		}
	}
	bounds, err := boundsOf(ctx, tx, bound, states, readings)
	if err != nil {
		return Booked{}, fmt.Errorf("book usage: %w", err)
	}
	for _, s := range states {
		if r, ok := readings[s.SIMID]; ok {
			b.take(s, r, bounds[s.AccountID])
		}
	}
	if err := b.write(ctx, tx); err != nil {
		return b.Booked, err
	}
	for i := range obs {
		obs[i].Odd = slices.Contains(b.told, obs[i].SIMID)
	}
	return b.Booked, nil
}

// boundsOf gives the bound of each account, with the width of the counters that its driver declares. Of a driver
// that is not built in none is known.
func boundsOf(ctx context.Context, tx *store.Tx, bound Bound, states []store.UsageState, readings map[simwarden.SIMID]simwarden.Reading) (map[simwarden.AccountID]Bound, error) {
	bounds := map[simwarden.AccountID]Bound{}
	var ids []simwarden.AccountID
	for _, s := range states {
		if _, known := bounds[s.AccountID]; known || readings[s.SIMID].Usage == nil {
			continue
		}
		bounds[s.AccountID] = bound
		ids = append(ids, s.AccountID)
	}
	if len(ids) == 0 {
		return bounds, nil
	}
	accounts, err := tx.AccountsByID(ctx, ids)
	if err != nil {
		return nil, err
	}
	for id, a := range accounts {
		if driver, err := carrier.Lookup(a.Driver); err == nil {
			own := bound
			own.WrapBytes = driver.Info().Usage.WrapBytes
			bounds[id] = own
		}
	}
	return bounds, nil
}

// booking collects what one transaction books.
type booking struct {
	Booked
	subs   map[store.Asset][]*store.BearingSubscription
	stays  map[store.Asset][]store.PoolStay
	rows   []store.UsageRow
	spent  []store.SpentRow
	late   []store.SpentRow
	first  []store.FirstUse
	rates  []store.RateRow
	draws  []draw
	asks   []store.Evaluation // of devices whose data came to an end
	events []store.NewEvent
	alerts []store.Alert
	odd    map[string]store.NewEvent // the event of a new anomaly, by its alert's key
	told   []simwarden.SIMID         // of whose anomalies people are told first now
}

func (b *booking) take(s store.UsageState, r simwarden.Reading, bound Bound) {
	kept := Kept{Known: s.CounterBytes != nil, PeriodStartAt: s.PeriodStartAt, ReadAt: s.ReadAt, TrueAt: s.TrueAt}
	if kept.Known {
		kept.CounterBytes = *s.CounterBytes
	}
	step := Advance(kept, *r.Usage, r.ReadAt, bound)
	if step.Outcome.Anomaly() {
		b.anomaly(s, r, kept, step.Outcome)
	}
	if step.Kept == kept {
		return
	}
	if step.Outcome == RolledOver {
		b.events = append(b.events, store.NewEvent{Kind: store.EventUsageRolledOver, SIMID: s.SIMID, AccountID: s.AccountID, Actor: "carrier",
			Data: map[string]any{"counter_bytes": r.Usage.CounterBytes, "was_bytes": kept.CounterBytes, "wrap_bytes": bound.WrapBytes, "bytes": step.DeltaBytes}})
	}
	b.rows = append(b.rows, store.UsageRow{
		SIMID: s.SIMID, CounterBytes: step.Kept.CounterBytes, PeriodStartAt: step.Kept.PeriodStartAt,
		ReadAt: step.Kept.ReadAt, TrueAt: step.Kept.TrueAt, DeltaBytes: step.DeltaBytes,
	})
	if step.DeltaBytes > 0 {
		b.Grew = append(b.Grew, s.SIMID)
		b.DeltaBytes += step.DeltaBytes
		b.spend(s, step.DeltaBytes, step.Kept.TrueAt)
		b.rate(s, kept, step)
	}
}

// rate keeps at which rate a SIM used data whose asset has, or had, a plan with a guard band (E12).
func (b *booking) rate(s store.UsageState, before Kept, step Step) {
	guarded := slices.ContainsFunc(b.subs[s.Asset], func(sub *store.BearingSubscription) bool { return sub.GuardBandProbability > 0 })
	if !guarded {
		return
	}
	over := step.Kept.TrueAt.Sub(before.TrueAt)
	if over <= 0 { // the carrier has put an older figure right: it took as long as we did not know it
		over = step.Kept.ReadAt.Sub(before.ReadAt)
	}
	b.rates = append(b.rates, store.RateRow{SIMID: s.SIMID, Asset: s.Asset, DeltaBytes: step.DeltaBytes, Over: over, TrueAt: step.Kept.TrueAt})
}

// spend shares a delta out over what was in force at the instant it belongs to.
func (b *booking) spend(s store.UsageState, delta int64, at time.Time) {
	var facts []rules.SubscriptionFact
	byID := map[simwarden.SubscriptionID]*store.BearingSubscription{}
	live := false
	for _, sub := range b.subs[s.Asset] {
		if sub.InForce(at) {
			live = live || !sub.Ended
			byID[sub.ID] = sub
		}
	}
	if next := b.next(s.Asset, at); next != nil {
		live = true
		byID[next.ID] = next
		fact := next.SubscriptionFact
		fact.StartAt, fact.EndAt = at, at.Add(time.Second)
		facts = append(facts, fact)
	}
	for _, sub := range byID {
		// What has ended bears usage only where nothing that counts does.
		if sub.Ended != live && !sub.Queued {
			facts = append(facts, sub.SubscriptionFact)
		}
	}
	var parts []rules.Spent
	if stay, pooled := b.stayAt(s.Asset, at); pooled {
		var rest int64
		if parts, rest = rules.SpendPooled(facts, delta, at); rest > 0 {
			b.draws = append(b.draws, draw{stay: stay, sim: s, bytes: rest, at: at})
		}
	} else {
		parts = rules.Spend(facts, delta, at)
	}
	for _, part := range parts {
		sub := byID[part.ID]
		row := store.SpentRow{ID: part.ID, UsedBytes: part.UsedBytes, Exhausted: part.Exhausted}
		switch {
		case sub.Ended:
			b.late = append(b.late, row)
		case at.Before(sub.ResetAt): // its period is closed
		default:
			if sub.Queued {
				b.first = append(b.first, store.FirstUse{ID: part.ID, UsedBytes: part.UsedBytes, UsedAt: at})
			} else {
				b.spent = append(b.spent, row)
			}
			sub.UsedBytes += part.UsedBytes
			if part.Exhausted && !sub.Exhausted {
				sub.Exhausted = true
				b.Exhausted = append(b.Exhausted, sub.ID)
				b.ask(s)
				b.events = append(b.events, store.NewEvent{Kind: store.EventExhausted, SIMID: s.SIMID, AccountID: s.AccountID, Actor: "system",
					Data: map[string]any{"subscription_id": sub.ID, "plan": sub.PlanCode, "used_bytes": sub.UsedBytes, "allowance_bytes": sub.AllowanceBytes}})
			}
			continue
		}
		b.LateBytes += part.UsedBytes
		b.events = append(b.events, store.NewEvent{Kind: store.EventUsageLate, SIMID: s.SIMID, AccountID: s.AccountID, Actor: "carrier",
			Data: map[string]any{"subscription_id": sub.ID, "plan": sub.PlanCode, "bytes": part.UsedBytes, "true_at": at, "ended": sub.Ended}})
	}
}

// ask has all SIMs of a device judged, once, where data of the device has come to an end by a reading of one
// of them: that one alone is judged with its reading, and the others use the same data (E8).
func (b *booking) ask(s store.UsageState) {
	device := s.Asset.DeviceID
	if device == 0 || slices.ContainsFunc(b.asks, func(e store.Evaluation) bool { return e.DeviceID == device }) {
		return
	}
	b.asks = append(b.asks, store.Evaluation{DeviceID: device, Scene: simwarden.SceneUsageCheck,
		Cause: store.Cause{Kind: store.CauseReading, ID: int64(s.SIMID)}, AskedBy: "system"})
}

// next is the queued main plan that bears what the asset uses at the instant; nil where one is in
// force then or was, or where what it waits for is not its first use and has not come about.
func (b *booking) next(a store.Asset, at time.Time) *store.BearingSubscription {
	var next *store.BearingSubscription
	for _, sub := range b.subs[a] {
		switch {
		case sub.Queued:
			next = sub
		case sub.Kind == simwarden.PlanMain && sub.EndAt.After(at):
			return nil
		}
	}
	if next == nil || next.StartAt.IsZero() || at.Before(next.StartAt) {
		return nil
	}
	return next
}

// anomaly tells of a counter that cannot be right, once per SIM and period (U2).
func (b *booking) anomaly(s store.UsageState, r simwarden.Reading, kept Kept, o Outcome) {
	b.Anomalies = append(b.Anomalies, s.SIMID)
	key := fmt.Sprintf("%s:%d:%s:%d", store.AlertUsage, s.SIMID, o, r.Usage.PeriodStartAt.Unix())
	what := "fell within its period: the highest figure stays"
	if o == Jumped {
		what = "jumped beyond what is plausible: it is not booked"
	}
	if b.odd == nil {
		b.odd = map[string]store.NewEvent{}
	}
	b.odd[key] = store.NewEvent{Kind: store.EventUsageAnomaly, SIMID: s.SIMID, AccountID: s.AccountID, Actor: "carrier",
		Data: map[string]any{"anomaly": o, "counter_bytes": r.Usage.CounterBytes, "was_bytes": kept.CounterBytes,
			"period_start_at": r.Usage.PeriodStartAt, "read_at": r.ReadAt, "was_read_at": kept.ReadAt}}
	b.alerts = append(b.alerts, store.Alert{Kind: store.AlertUsage, Key: key, AccountID: s.AccountID, SIMID: s.SIMID,
		Message: fmt.Sprintf("SIM %s: the carrier's counter %s (%d bytes before, %d now)", s.ICCID, what, kept.CounterBytes, r.Usage.CounterBytes)})
}

func (b *booking) write(ctx context.Context, tx *store.Tx) error {
	if err := tx.WriteUsage(ctx, b.rows); err != nil {
		return fmt.Errorf("book usage: %w", err)
	}
	if fault.Planted("V16") { // each reading counts twice
		if err := tx.WriteUsage(ctx, b.rows); err != nil {
			return fmt.Errorf("book usage: %w", err)
		}
	}
	if err := tx.Spend(ctx, b.spent); err != nil {
		return fmt.Errorf("book usage: %w", err)
	}
	if err := tx.BookFirstUse(ctx, b.first); err != nil {
		return fmt.Errorf("book usage: %w", err)
	}
	if err := tx.SpendLate(ctx, b.late); err != nil {
		return fmt.Errorf("book usage: %w", err)
	}
	if err := tx.WriteRates(ctx, b.rates); err != nil {
		return fmt.Errorf("book usage: %w", err)
	}
	if err := b.writeDraws(ctx, tx); err != nil {
		return fmt.Errorf("book usage: %w", err)
	}
	if err := tx.RequestEvaluations(ctx, b.asks, nil); err != nil {
		return fmt.Errorf("book usage: %w", err)
	}
	opened, err := tx.RaiseNew(ctx, b.alerts)
	if err != nil {
		return fmt.Errorf("book usage: %w", err)
	}
	for _, a := range b.alerts {
		if opened[a.Key] {
			b.told = append(b.told, a.SIMID)
			b.events = append(b.events, b.odd[a.Key])
		}
	}
	return tx.AddEvents(ctx, b.events)
}
