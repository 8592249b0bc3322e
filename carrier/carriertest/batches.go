package carriertest

import (
	"slices"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/lab"
)

func batches(s Suite) []check {
	var out []check
	conn := s.capabilities()
	if _, ok := conn.(carrier.BatchReader); ok {
		out = append(out, check{"P7: a batch names each SIM that there is, once, by one request", batchNamesSIMs})
	}
	if _, ok := conn.(carrier.UsageBatchReader); ok {
		out = append(out, check{"U1, E11: a batch of usage is exact for the instant that it says", batchUsage})
	}
	if _, ok := conn.(carrier.BatchChanger); ok {
		out = append(out, check{"C7: a batch of changes is one request, and its job tells of each SIM", batchChanges})
	}
	return out
}

// refs adds SIMs in the state.
func (b *bench) refs(n int, state simwarden.State) []carrier.SIMRef {
	b.t.Helper()
	out := make([]carrier.SIMRef, n)
	for i := range out {
		out[i] = b.sim(state)
	}
	return out
}

func batchNamesSIMs(t *testing.T, s Suite) {
	b := s.open(t, lab.AccountSpec{})
	reader := b.conn.(carrier.BatchReader)
	sims := b.refs(reader.BatchSize()-1, simwarden.StateActive)
	if _, err := b.conn.State(t.Context(), sims[0]); err != nil {
		t.Fatal(b.failure(err))
	}
	b.doer.take()
	readings, err := reader.SIMs(t.Context(), append(slices.Clone(sims), s.strangerTo(t, len(sims)+1)))
	if err != nil {
		t.Fatal(b.failure(err))
	}
	if sent := b.doer.take(); !slices.Equal(sent, []simwarden.Operation{simwarden.OpQueryState}) {
		t.Errorf("a batch sent requests of operations %v", sent)
	}
	seen := make(map[string]bool)
	for _, r := range readings {
		truth := b.truth(r.Key)
		if seen[r.Key] || r.ICCID.String() != truth.ICCID || !r.ReadAt.Equal(b.clock.Now()) {
			t.Errorf("SIM %s (%s) is read as %+v, twice: %v", truth.Key, truth.ICCID, r, seen[r.Key])
		}
		if r.State != nil && r.State.State != truth.State {
			t.Errorf("SIM %s is read as %s, is %s", truth.ICCID, r.State.State, truth.State)
		}
		seen[r.Key] = true
	}
	if len(seen) != len(sims) {
		t.Errorf("a batch of %d SIMs and one that there is not gave %d", len(sims), len(seen))
	}
	if _, err := reader.SIMs(t.Context(), append(slices.Clone(sims), sims[0], sims[1])); !b.failure(err).NotSent {
		t.Error("a batch that is too large was sent")
	}
}

// strangerTo is a SIM of the carrier's kind that an account of n SIMs does not have.
func (s Suite) strangerTo(t *testing.T, n int) carrier.SIMRef {
	t.Helper()
	b := s.open(t, lab.AccountSpec{})
	return b.refs(n+1, simwarden.StateActive)[n]
}

func batchUsage(t *testing.T, s Suite) {
	b := s.open(t, lab.AccountSpec{})
	reader := b.conn.(carrier.UsageBatchReader)
	sims := b.refs(20, simwarden.StateActive)
	before := make(map[string]int64)
	for i, sim := range sims {
		before[sim.Key] = int64(i) * 1_000_003
		if err := b.account.SetUsage(sim.ICCID.String(), before[sim.Key]); err != nil {
			t.Fatal(err)
		}
	}
	b.clock.Advance(24 * time.Hour)
	addedAt := b.clock.Now()
	const added = 777_777_777
	for _, sim := range sims {
		if err := b.account.AddUsage(sim.ICCID.String(), added); err != nil {
			t.Fatal(err)
		}
	}
	b.clock.Advance(2 * time.Second)
	readings, err := reader.UsageOf(t.Context(), sims)
	if err != nil {
		t.Fatal(b.failure(err))
	}
	if len(readings) != len(sims) {
		t.Errorf("%d SIMs gave %d readings", len(sims), len(readings))
	}
	wantStart, wantEnd := carrier.MonthIn(b.clock.Now(), b.zone())
	for _, r := range readings {
		want := before[r.Key]
		if r.Usage == nil || r.State != nil {
			t.Errorf("a row of usage is %+v", r)
			continue
		}
		if r.Usage.TrueAt.IsZero() || r.Usage.TrueAt.After(addedAt) {
			want += added
		}
		want -= want % b.info.Usage.UnitBytes
		if r.Usage.CounterBytes != want || r.Usage.TrueAt.After(r.ReadAt) {
			t.Errorf("SIM %s used %d bytes, read %+v", r.Key, want, *r.Usage)
		}
		if !r.Usage.PeriodStartAt.Equal(wantStart) || !r.Usage.PeriodEndAt.Equal(wantEnd) {
			t.Errorf("the period is %v to %v, want the month from %v", r.Usage.PeriodStartAt, r.Usage.PeriodEndAt, wantStart)
		}
	}
	b.clock.Set(time.Date(2026, time.April, 1, 11, 0, 0, 0, b.zone()))
	readings, err = reader.UsageOf(t.Context(), sims)
	if err != nil {
		t.Fatalf("on a month's first day: %v", b.failure(err))
	}
	for _, r := range readings {
		if r.Usage.CounterBytes != 0 {
			t.Errorf("on a month's first day SIM %s reads as %+v", r.Key, *r.Usage)
		}
	}
}

func batchChanges(t *testing.T, s Suite) {
	b := s.open(t, lab.AccountSpec{ChangeDelay: time.Minute})
	changer, follower := b.conn.(carrier.BatchChanger), b.conn.(carrier.JobFollower)
	sims := b.refs(5, simwarden.StateActive)
	already := b.sim(simwarden.StateSuspended)
	all := append(slices.Clone(sims), already)
	if _, err := b.conn.State(t.Context(), sims[0]); err != nil {
		t.Fatal(b.failure(err))
	}
	b.doer.take()
	result, err := changer.ChangeMany(t.Context(), simwarden.DirectionSuspend, all)
	if err != nil {
		t.Fatal(b.failure(err))
	}
	if sent := b.doer.take(); !slices.Equal(sent, []simwarden.Operation{simwarden.OpSuspend}) {
		t.Errorf("a batch of changes sent %v", sent)
	}
	if result.Outcome != carrier.Accepted || result.Handle == "" {
		t.Fatalf("a batch of changes is %+v, want accepted with a handle", result)
	}
	if state, err := follower.Job(t.Context(), sims[0], result.Handle); err != nil || state.Finished {
		t.Errorf("at once the job is %+v, %v; want under way", state, err)
	}
	b.clock.Advance(time.Minute + time.Second)
	for _, sim := range all {
		state, err := follower.Job(t.Context(), sim, result.Handle)
		if err != nil {
			t.Fatal(b.failure(err))
		}
		if !state.Finished || (state.Err != nil) != (sim.Key == already.Key) {
			t.Errorf("SIM %s in the job is %+v", sim.ICCID, state)
		}
		if state.Err != nil && b.class(state.Err) != carrier.ClassAlreadyInState {
			t.Errorf("a SIM that was suspended already is %s (%v)", b.class(state.Err), state.Err)
		}
		if got := b.truth(sim.ICCID.String()).State; got != simwarden.StateSuspended {
			t.Errorf("SIM %s is %s after the job", sim.ICCID, got)
		}
	}
	if _, err := changer.ChangeMany(t.Context(), simwarden.DirectionResume, nil); !b.failure(err).NotSent {
		t.Error("a batch of no SIMs was sent")
	}
}
