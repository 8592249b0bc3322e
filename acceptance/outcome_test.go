package acceptance

import (
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/lab"
)

func TestS16AServerErrorIsOneRequestAndTheRetryIsJudgedAfterARead(t *testing.T) {
	eachCarrier(t, func(t *testing.T, driver string) {
		w := newWorld(t, driver)
		w.run()
		c, _ := w.running(3*time.Second, simwarden.UnlimitedBytes)
		w.fault(lab.Fault{Name: lab.Fail5xx, Operations: []simwarden.Operation{simwarden.OpSuspend}, Count: 1})
		cmd := w.only(c, simwarden.DirectionSuspend, simwarden.ScenePlanLapsed, simwarden.ReasonNoPlan)
		changes, attempts := w.changes(c), w.attempts(cmd.ID)
		if len(changes) != 2 || len(attempts) != 2 {
			t.Fatalf("%d requests in %d attempts, want one in each of two", len(changes), len(attempts))
		}
		for i, l := range changes {
			if l.RequestID != attempts[i].RequestID {
				t.Errorf("request %d is %q, attempt %d is %q (C4)", i+1, l.RequestID, i+1, attempts[i].RequestID)
			}
		}
		if changes[0].Status != 500 || changes[0].Executed || !changes[1].Executed {
			t.Errorf("the requests were answered %d and %d", changes[0].Status, changes[1].Status)
		}
		read := false
		for _, l := range w.lines(c, lab.KindRead) {
			read = read || l.StateAnswered == simwarden.StateActive && l.ArrivedAt.After(changes[0].AnsweredAt) && l.AnsweredAt.Before(changes[1].ArrivedAt)
		}
		if !read {
			t.Error("the state was not read between the two requests (C6)")
		}
		if !attempts[1].JudgedAt.After(changes[0].AnsweredAt) || !attempts[1].StateReadAt.After(changes[0].AnsweredAt) {
			t.Errorf("the second attempt was judged at %s on a state read at %s, the error came at %s (C3)",
				attempts[1].JudgedAt, attempts[1].StateReadAt, changes[0].AnsweredAt)
		}
		if truth := w.truth(c); truth.State != simwarden.StateSuspended || truth.Executions != 1 {
			t.Errorf("SIM %s is %s after %d changes", c.iccid, truth.State, truth.Executions)
		}
	})
}

func TestS17TheConnectionDiesAfterTheCarrierActed(t *testing.T) {
	eachCarrier(t, func(t *testing.T, driver string) {
		for _, fault := range []lab.Fault{
			{Name: lab.ActThenReset}, {Name: lab.ActThenHang}, {Name: lab.ActThen5xx},
			{Name: lab.ActLate, Seconds: 2 * commandTimeout.Seconds()}, // F21: when nobody waits any more
		} {
			t.Run(fault.Name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, driver)
				w.run()
				c, _ := w.running(3*time.Second, simwarden.UnlimitedBytes)
				fault.Operations, fault.Count = []simwarden.Operation{simwarden.OpSuspend}, 1
				w.fault(fault)
				cmd := w.only(c, simwarden.DirectionSuspend, simwarden.ScenePlanLapsed, simwarden.ReasonNoPlan)
				w.suspended(c)
				if n := w.truth(c).Executions; n != 1 {
					t.Errorf("the carrier acted %d times", n)
				}
				if cmd.Attempt != 1 {
					t.Errorf("%d attempts, want one", cmd.Attempt)
				}
				sent := w.changes(c)[0]
				read := false
				for _, l := range w.lines(c, lab.KindRead) {
					read = read || l.StateAnswered == simwarden.StateSuspended && l.ArrivedAt.After(sent.ArrivedAt) && l.AnsweredAt.Before(cmd.EndedAt)
				}
				if !read {
					t.Error("it succeeded although nobody had asked for the state (C6)")
				}
			})
		}
	})
}

func TestF4TwoNodesSuspendEachSIMOnce(t *testing.T) {
	eachCarrier(t, func(t *testing.T, driver string) {
		w := newWorld(t, driver)
		var sims []card
		for range 9 { // more ends written just ahead at once would wait for a person (V13)
			sims = append(sims, lapsing(w))
		}
		suspends := []simwarden.Operation{simwarden.OpSuspend}
		w.fault(lab.Fault{Name: lab.ActThenReset, Operations: suspends, Count: 2})
		w.fault(lab.Fault{Name: lab.ResetBefore, Operations: suspends, Count: 2})
		w.fault(lab.Fault{Name: lab.Throttle, Operations: suspends, Count: 2, Variant: "seconds", Seconds: 1})
		w.run()
		w.run()
		for _, c := range sims {
			w.only(c, simwarden.DirectionSuspend, simwarden.ScenePlanLapsed, simwarden.ReasonNoPlan)
			if truth := w.truth(c); truth.State != simwarden.StateSuspended || truth.Executions != 1 {
				t.Errorf("SIM %s is %s after %d changes, want suspended after one", c.iccid, truth.State, truth.Executions)
			}
		}
		if n := w.count(`SELECT count(DISTINCT b.id) FROM subscription b JOIN event e ON e.kind = 'plan_lapsed' AND (e.data->>'subscription_id')::bigint = b.id`); n != len(sims) {
			t.Errorf("%d plans have ended, want %d", n, len(sims))
		}
	})
}
