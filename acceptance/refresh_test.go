package acceptance

import (
	"fmt"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/api"
	"github.com/simwarden/simwarden/lab"
)

// refreshed has a person refresh the SIM and gives what was read, by check.
func (w *world) refreshed(c card) (api.SIMRefreshed, map[simwarden.CheckKind]api.FreshCheck) {
	w.t.Helper()
	asker := w.asker()
	service := w.person()
	service.Asker = asker
	r, err := service.Refresh(w.ctx, c.iccid, anna)
	w.must(err)
	w.must(asker.Close(w.ctx))
	checks := map[simwarden.CheckKind]api.FreshCheck{}
	for _, check := range r.Checks {
		checks[check.Check] = check
	}
	return r, checks
}

func TestG2ARefreshIsBookedAndJudgedAsAPollIs(t *testing.T) {
	eachCarrier(t, func(t *testing.T, driver string) {
		w := newWorld(t, driver, seldom)
		w.run()
		c, _ := w.running(time.Hour, allowance)
		w.must(w.carrier.AddUsage(c.iccid, 2*allowance))
		r, checks := w.refreshed(c)
		if !checks[simwarden.CheckState].Read || checks[simwarden.CheckState].State != simwarden.StateActive || !checks[simwarden.CheckUsage].Read {
			t.Fatalf("read was %+v", r.Checks)
		}
		if got := checks[simwarden.CheckUsage]; got.CounterBytes == nil || *got.CounterBytes < 2*allowance || time.Since(got.ReadAt) > time.Minute {
			t.Errorf("the answer tells the usage as %+v", got)
		}
		w.only(c, simwarden.DirectionSuspend, simwarden.SceneUsageCheck, simwarden.ReasonDataExhausted)
		w.suspended(c)
		if n := w.count(`SELECT count(*) FROM audit WHERE sim_id = $1 AND action = 'sim_refresh' AND actor = $2`, c.id, anna); n != 1 {
			t.Errorf("%d audit rows of the refresh, want one (R2)", n)
		}
		if n := w.called(simwarden.PurposeManualRefresh, "ok"); n < 2 {
			t.Errorf("%d calls are counted as manual_refresh, want two reads at least (G1)", n)
		}
	})
}

func TestP5ARefreshOfASIMWhosePollingIsStoppedLeavesItSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "soracom", seldom)
	w.run()
	c, _ := w.running(time.Hour, allowance)
	w.pause(c)
	w.must(w.carrier.AddUsage(c.iccid, 2*allowance))
	r, _ := w.refreshed(c)
	if r.SIM.PausedAt.IsZero() || r.SIM.UsageReadAt.Before(r.Checks[0].ReadAt) {
		t.Errorf("after a refresh of a paused SIM: paused %v, usage read %v", r.SIM.PausedAt, r.SIM.UsageReadAt)
	}
	w.periodic(c)
	if list := w.commands(c); len(list) != 0 {
		t.Errorf("polling is paused, and a refresh led to commands (E5): %s", describe(list))
	}

	w.must(w.carrier.SetState(c.iccid, simwarden.StateTerminated))
	if r, _ = w.refreshed(c); r.SIM.ClosedAt.IsZero() {
		t.Errorf("the carrier says terminated, and polling is not closed (P5): %+v", r.Checks)
	}
	w.must(w.carrier.SetState(c.iccid, simwarden.StateActive))
	if r, _ = w.refreshed(c); r.SIM.ClosedAt.IsZero() || r.SIM.State != simwarden.StateActive {
		t.Errorf("a refresh of a closed SIM: state %s, closed %v; want it read and still closed", r.SIM.State, r.SIM.ClosedAt)
	}
}

func TestG2ARefreshSaysWhyNothingCouldBeRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "soracom", seldom)
	c := w.sim(simwarden.StateActive)
	for _, row := range []struct {
		sentence string
		fault    lab.Fault
		class    carrier.Class
	}{
		{"the carrier's own limit", lab.Fault{Name: lab.Throttle, Variant: "seconds", Seconds: 7}, carrier.ClassThrottled},
		{"credentials that it refuses", lab.Fault{Name: lab.AuthFail}, carrier.ClassAuth},
		{"an account that was stopped for them", lab.Fault{}, carrier.ClassStopped},
	} {
		if row.fault.Name != "" {
			row.fault.Count = 1
			w.fault(row.fault)
		}
		r, _ := w.refreshed(c)
		if len(r.Checks) != 1 || r.Checks[0].Read || r.Checks[0].WhyNot.Class != row.class || r.Checks[0].WhyNot.Message == "" {
			t.Errorf("%s: %s, want class %s and nothing asked after it", row.sentence, describeChecks(r.Checks), row.class)
		}
		if row.class == carrier.ClassThrottled && r.Checks[0].WhyNot.RetryAfterSeconds != 7 {
			t.Errorf("%s: ask again after %v s, want 7", row.sentence, r.Checks[0].WhyNot.RetryAfterSeconds)
		}
	}
	if n := w.count(`SELECT count(*) FROM poll_state WHERE sim_id = $1 AND state_read_at IS NOT NULL`, c.id); n != 0 {
		t.Error("what was not read is in the books")
	}
}

func describeChecks(list []api.FreshCheck) string {
	out := ""
	for _, c := range list {
		out += fmt.Sprintf("%s read %v", c.Check, c.Read)
		if c.WhyNot != nil {
			out += fmt.Sprintf(" because %+v", *c.WhyNot)
		}
		out += "; "
	}
	return out
}
