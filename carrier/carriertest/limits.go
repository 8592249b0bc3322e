package carriertest

import (
	"slices"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/lab"
)

func limits(s Suite) []check {
	if _, ok := s.capabilities().(carrier.LimitSetter); !ok {
		return nil
	}
	return []check{
		{"P8: a limit is set, changed and removed by one request each, and read back", limitLives},
		{"P8: the carrier stops a SIM at its limit, and not before", limitStops},
		{"P8: a limit that was made twice shows twice, and each can be removed", limitTwice},
		{"P8: a limit that is gone is removed without an error, and not changed without one", limitGone},
		{"P8: a limit that is no whole number of the carrier's units is not sent", limitUnits},
		{"C4: a limit is set by one request, whatever comes of it", limitFails},
	}
}

func (b *bench) limits() []carrier.Limit {
	b.t.Helper()
	held, err := b.conn.(carrier.LimitSetter).Limits(b.t.Context())
	if err != nil {
		b.t.Fatal(b.failure(err))
	}
	return held
}

func (b *bench) setLimit(sim carrier.SIMRef, handle string, limitBytes int64) carrier.Limit {
	b.t.Helper()
	b.doer.take()
	l, err := b.conn.(carrier.LimitSetter).SetLimit(b.t.Context(), sim, handle, limitBytes)
	if err != nil {
		b.t.Fatal(b.failure(err))
	}
	sent := slices.DeleteFunc(b.doer.take(), func(op simwarden.Operation) bool { return op == simwarden.OpToken })
	if !slices.Equal(sent, []simwarden.Operation{simwarden.OpSetThreshold}) {
		b.t.Errorf("setting a limit sent requests of operations %v, want one of %s (C4)", sent, simwarden.OpSetThreshold)
	}
	if l.Handle == "" || l.Key != sim.Key || l.LimitBytes != limitBytes || l.Altered {
		b.t.Errorf("the limit of %d bytes was set as %+v", limitBytes, l)
	}
	return l
}

func limitLives(t *testing.T, s Suite) {
	b := s.open(t, lab.AccountSpec{})
	sim, other := b.sim(simwarden.StateActive), b.sim(simwarden.StateActive)
	unit := b.info.Limit.UnitBytes
	if held := b.limits(); len(held) != 0 {
		t.Errorf("a new account holds %+v", held)
	}
	first := b.setLimit(sim, "", 100*unit)
	second := b.setLimit(other, "", 7*unit)
	if held := b.limits(); !slices.Contains(held, first) || !slices.Contains(held, second) || len(held) != 2 {
		t.Errorf("the account holds %+v, want %+v and %+v", held, first, second)
	}
	changed := b.setLimit(sim, first.Handle, 250*unit)
	if held := b.limits(); !slices.Contains(held, changed) || len(held) != 2 {
		t.Errorf("after the change the account holds %+v, want %+v in the place of the first", held, changed)
	}
	if got := b.truth(sim.ICCID.String()).LimitBytes; got != 250*unit {
		t.Errorf("the carrier stops the SIM at %d bytes, want %d", got, 250*unit)
	}
	if err := b.conn.(carrier.LimitSetter).RemoveLimit(t.Context(), first.Handle); err != nil {
		t.Fatal(b.failure(err))
	}
	if held := b.limits(); len(held) != 1 || held[0] != second {
		t.Errorf("after the removal the account holds %+v, want %+v alone", held, second)
	}
}

func limitStops(t *testing.T, s Suite) {
	b := s.open(t, lab.AccountSpec{})
	sim := b.sim(simwarden.StateActive)
	limit := b.setLimit(sim, "", 3*b.info.Limit.UnitBytes).LimitBytes
	for _, step := range []struct {
		usedBytes int64
		want      simwarden.State
	}{{limit - 1, simwarden.StateActive}, {limit + 1, simwarden.StateSuspended}} {
		if err := b.account.SetUsage(sim.ICCID.String(), step.usedBytes); err != nil {
			t.Fatal(err)
		}
		b.clock.Advance(time.Second)
		r, err := b.conn.State(t.Context(), sim)
		if err != nil {
			t.Fatal(b.failure(err))
		}
		if r.State.State != step.want {
			t.Errorf("with %d bytes of %d used the SIM is %s, want %s", step.usedBytes, limit, r.State.State, step.want)
		}
	}
}

func limitTwice(t *testing.T, s Suite) {
	b := s.open(t, lab.AccountSpec{})
	sim := b.sim(simwarden.StateActive)
	unit := b.info.Limit.UnitBytes
	first, second := b.setLimit(sim, "", 5*unit), b.setLimit(sim, "", 6*unit)
	if held := b.limits(); len(held) != 2 || first.Handle == second.Handle {
		t.Fatalf("a limit that was made twice shows as %+v", held)
	}
	if err := b.conn.(carrier.LimitSetter).RemoveLimit(t.Context(), first.Handle); err != nil {
		t.Fatal(b.failure(err))
	}
	if held := b.limits(); len(held) != 1 || held[0] != second {
		t.Errorf("after one was removed the account holds %+v, want %+v", held, second)
	}
}

func limitGone(t *testing.T, s Suite) {
	b := s.open(t, lab.AccountSpec{})
	sim := b.sim(simwarden.StateActive)
	setter := b.conn.(carrier.LimitSetter)
	l := b.setLimit(sim, "", b.info.Limit.UnitBytes)
	b.account.DropLimits(sim.ICCID.String())
	if held := b.limits(); len(held) != 0 {
		t.Errorf("a limit that the carrier has dropped shows as %+v", held)
	}
	if err := setter.RemoveLimit(t.Context(), l.Handle); err != nil {
		t.Errorf("removing what is gone: %v", b.failure(err))
	}
	if _, err := setter.SetLimit(t.Context(), sim, l.Handle, 2*b.info.Limit.UnitBytes); err == nil {
		t.Error("changing what is gone is no error: nobody would set it again")
	} else if e := b.failure(err); e.Operation != simwarden.OpSetThreshold {
		t.Errorf("the error is of operation %s", e.Operation)
	}
}

func limitUnits(t *testing.T, s Suite) {
	b := s.open(t, lab.AccountSpec{})
	sim := b.sim(simwarden.StateActive)
	unit := b.info.Limit.UnitBytes
	if unit < 1 || b.info.Limit.MostBytes < unit || b.info.Limit.MostBytes%unit != 0 {
		t.Fatalf("the driver declares limits of %+v", b.info.Limit)
	}
	bad := []int64{0, -1, -unit, b.info.Limit.MostBytes + unit}
	if unit > 1 {
		bad = append(bad, unit-1, unit+1)
	}
	b.doer.take()
	for _, n := range bad {
		_, err := b.conn.(carrier.LimitSetter).SetLimit(t.Context(), sim, "", n)
		if err == nil {
			t.Errorf("a limit of %d bytes was set", n)
			continue
		}
		if e := b.failure(err); !e.NotSent {
			t.Errorf("a limit of %d bytes: %+v, want it not sent", n, e)
		}
	}
	for _, handle := range []string{"../sims", "a/b", "?"} {
		if err := b.conn.(carrier.LimitSetter).RemoveLimit(t.Context(), handle); err == nil || !b.failure(err).NotSent {
			t.Errorf("handle %q: %v, want it not sent", handle, err)
		}
	}
	if sent := b.doer.take(); len(sent) != 0 {
		t.Errorf("requests of operations %v were sent", sent)
	}
}

func limitFails(t *testing.T, s Suite) {
	for _, fault := range []string{lab.ActThen5xx, lab.Fail5xx, lab.ActThenReset, lab.Garbage} {
		t.Run(fault, func(t *testing.T) {
			b := s.open(t, lab.AccountSpec{})
			sim := b.sim(simwarden.StateActive)
			b.limits() // logs in
			before := b.world.Requests()
			b.fault(lab.Fault{Name: fault, Operations: []simwarden.Operation{simwarden.OpSetThreshold}, Count: 1})
			_, err := b.conn.(carrier.LimitSetter).SetLimit(t.Context(), sim, "", b.info.Limit.UnitBytes)
			if err == nil {
				t.Fatal("the driver gives no error")
			}
			if e := b.failure(err); e.NotSent {
				t.Errorf("%+v says that nothing was sent", e)
			}
			if n := b.world.Requests() - before; n != 1 {
				t.Errorf("the carrier saw %d requests, want one (C4)", n)
			}
			held := len(b.limits())
			if acted := fault != lab.Fail5xx; acted != (held == 1) {
				t.Errorf("after %s the account holds %d limits", fault, held)
			}
		})
	}
}
