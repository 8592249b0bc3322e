package carriertest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/lab"
)

func commands() []check {
	return []check{
		{"C4: a suspend and a resume are one request each, and take effect", commandsAreOneRequest},
		{"C4, F20: a reply lost after acting is one request and an unknown outcome", replyLost},
		{"C4, F20: a connection reset before acting is one request and an unknown outcome", resetBefore},
		{"C4: a 401 on a command sends nothing more; the next attempt is fresh", commandUnauthorized},
		{"C5: a 5xx on a command is told with its status and is an unknown outcome", commandServerError},
		{"C4: a command that is asked of a SIM without a key sends nothing", commandWithoutKey},
		{"C7: asking for the state that it is in does no harm", alreadyInState},
		{"C7, F22: the answer's word is handed on; the state read later is the truth", lieIsRead},
		{"C7: a change that takes time is accepted or done, and shows in the end", changeTakesTime},
		{"a context that has ended sends nothing", endedContext},
	}
}

// both runs a check for a suspend of an active SIM and a resume of a suspended one.
func both(t *testing.T, s Suite, spec lab.AccountSpec, do func(b *bench, sim carrier.SIMRef, d simwarden.Direction, send func(context.Context) (carrier.Result, error))) {
	for _, d := range []simwarden.Direction{simwarden.DirectionSuspend, simwarden.DirectionResume} {
		t.Run(string(d), func(t *testing.T) {
			b := s.open(t, spec)
			sim := b.sim(d.Opposite().Target())
			// The first read logs in, where the driver does, so that the command stands alone.
			if _, err := b.conn.State(t.Context(), sim); err != nil {
				t.Fatal(err)
			}
			b.doer.take()
			do(b, sim, d, func(ctx context.Context) (carrier.Result, error) { return b.send(ctx, d, sim) })
		})
	}
}

func (b *bench) send(ctx context.Context, d simwarden.Direction, sim carrier.SIMRef) (carrier.Result, error) {
	if d == simwarden.DirectionSuspend {
		return b.conn.Suspend(ctx, sim)
	}
	return b.conn.Resume(ctx, sim)
}

// oneRequest says that the driver has sent one request and that it was the command's.
func (b *bench) oneRequest(d simwarden.Direction) {
	b.t.Helper()
	sent := b.doer.take()
	if len(sent) != 1 || sent[0] != simwarden.OperationOf(d) {
		b.t.Errorf("a %s sent requests of operations %v: one attempt is one request (C4)", d, sent)
	}
	if n := b.changes(); n != 1 {
		b.t.Errorf("the carrier saw %d state-changing requests: one attempt is one request (C4)", n)
	}
}

func commandsAreOneRequest(t *testing.T, s Suite) {
	both(t, s, lab.AccountSpec{}, func(b *bench, sim carrier.SIMRef, d simwarden.Direction, send func(context.Context) (carrier.Result, error)) {
		result, err := send(b.t.Context())
		if err != nil {
			b.t.Fatal(b.failure(err))
		}
		b.oneRequest(d)
		if result.Outcome != carrier.Done && result.Outcome != carrier.Accepted {
			b.t.Errorf("outcome %q is neither done nor accepted", result.Outcome)
		}
		if result.Outcome == carrier.Done && (result.State == nil || result.State.State != d.Target()) {
			b.t.Errorf("done, but the answer's state is %+v, want %s", result.State, d.Target())
		}
		if got := b.truth(sim.ICCID.String()).State; got != d.Target() {
			b.t.Errorf("the SIM is %s at the carrier, want %s", got, d.Target())
		}
	})
}

func replyLost(t *testing.T, s Suite) {
	both(t, s, lab.AccountSpec{}, func(b *bench, sim carrier.SIMRef, d simwarden.Direction, send func(context.Context) (carrier.Result, error)) {
		b.fault(lab.Fault{Name: lab.ActThenReset})
		result, err := send(b.t.Context())
		if err == nil {
			b.t.Fatalf("a lost reply was taken for %+v", result)
		}
		e := b.failure(err)
		b.oneRequest(d)
		if e.NotSent || b.class(e) != carrier.ClassUnknownOutcome {
			b.t.Errorf("a lost reply is %s, not sent: %v; want unknown_outcome (C6)", b.class(e), e.NotSent)
		}
		truth := b.truth(sim.ICCID.String())
		if truth.State != d.Target() || truth.Executions != 1 {
			b.t.Errorf("the SIM is %s after %d executions, want %s after one", truth.State, truth.Executions, d.Target())
		}
	})
}

func resetBefore(t *testing.T, s Suite) {
	both(t, s, lab.AccountSpec{}, func(b *bench, sim carrier.SIMRef, d simwarden.Direction, send func(context.Context) (carrier.Result, error)) {
		b.fault(lab.Fault{Name: lab.ResetBefore})
		_, err := send(b.t.Context())
		e := b.failure(err)
		b.oneRequest(d)
		if e.NotSent || b.class(e) != carrier.ClassUnknownOutcome {
			b.t.Errorf("a reset is %s, not sent: %v; want unknown_outcome: nobody can tell it from a lost reply (C6)", b.class(e), e.NotSent)
		}
		if truth := b.truth(sim.ICCID.String()); truth.Executions != 0 {
			b.t.Errorf("the SIM was changed %d times", truth.Executions)
		}
	})
}

func commandUnauthorized(t *testing.T, s Suite) {
	both(t, s, lab.AccountSpec{}, func(b *bench, sim carrier.SIMRef, d simwarden.Direction, send func(context.Context) (carrier.Result, error)) {
		fault := lab.Fault{Name: lab.AuthFail, Count: 1}
		if s.Tokens {
			fault = lab.Fault{Name: lab.TokenExpire, Count: 1}
		}
		b.fault(fault)
		_, err := send(b.t.Context())
		e := b.failure(err)
		b.oneRequest(d)
		if e.HTTPStatus != s.refusedStatus(401) || b.class(e) != carrier.ClassAuth || e.Operation != simwarden.OperationOf(d) {
			b.t.Errorf("a refused command is %v, class %s; want HTTP %d of the command's operation, auth", e, b.class(e), s.refusedStatus(401))
		}
		if e.TokenExpired != s.Tokens {
			b.t.Errorf("token expired is %v: an old token is not a wrong password (G8)", e.TokenExpired)
		}
		if truth := b.truth(sim.ICCID.String()); truth.Executions != 0 {
			b.t.Errorf("the SIM was changed %d times by a refused request", truth.Executions)
		}
		b.pause()
		if _, err := send(b.t.Context()); err != nil {
			b.t.Fatalf("the next attempt: %v", b.failure(err))
		}
		want := []simwarden.Operation{simwarden.OperationOf(d)}
		if s.Tokens {
			want = slices.Insert(want, 0, simwarden.OpToken)
		}
		if sent := b.doer.take(); !slices.Equal(sent, want) {
			b.t.Errorf("the next attempt sent %v, want %v", sent, want)
		}
		if truth := b.truth(sim.ICCID.String()); truth.State != d.Target() {
			b.t.Errorf("the SIM is %s after the next attempt, want %s", truth.State, d.Target())
		}
	})
}

func commandServerError(t *testing.T, s Suite) {
	for _, fault := range []lab.Fault{{Name: lab.Fail5xx, Status: 500}, {Name: lab.ActThen5xx, Status: 502}, {Name: lab.Maintenance}} {
		both(t, s, lab.AccountSpec{}, func(b *bench, _ carrier.SIMRef, d simwarden.Direction, send func(context.Context) (carrier.Result, error)) {
			b.fault(fault)
			_, err := send(b.t.Context())
			e := b.failure(err)
			b.oneRequest(d)
			if e.HTTPStatus < 500 || fault.Status != 0 && e.HTTPStatus != fault.Status {
				b.t.Errorf("%s is told as HTTP %d", fault.Name, e.HTTPStatus)
			}
			if b.class(e) != carrier.ClassUnknownOutcome {
				b.t.Errorf("%s on a command is %s, want unknown_outcome (C5)", fault.Name, b.class(e))
			}
		})
	}
}

func commandWithoutKey(t *testing.T, s Suite) {
	both(t, s, lab.AccountSpec{}, func(b *bench, sim carrier.SIMRef, d simwarden.Direction, _ func(context.Context) (carrier.Result, error)) {
		_, resolves := b.conn.(carrier.Resolver)
		sim.Key = ""
		_, err := b.send(b.t.Context(), d, sim)
		if !resolves {
			if err != nil {
				b.t.Fatalf("the driver resolves no keys, and wants one: %v", err)
			}
			return
		}
		if e := b.failure(err); !e.NotSent || e.Code != carrier.CodeNoKey {
			b.t.Errorf("a command without a key: %v, not sent: %v; want nothing sent", e, e.NotSent)
		}
		for _, key := range []string{"../Sims", "a/b", "x?y=z", "é", " "} {
			sim.Key = key
			if _, err := b.send(b.t.Context(), d, sim); !b.failure(err).NotSent {
				b.t.Errorf("key %q was sent", key)
			}
		}
		if sent := b.doer.take(); len(sent) != 0 {
			b.t.Errorf("requests were sent: %v", sent)
		}
	})
}

func alreadyInState(t *testing.T, s Suite) {
	both(t, s, lab.AccountSpec{}, func(b *bench, sim carrier.SIMRef, d simwarden.Direction, send func(context.Context) (carrier.Result, error)) {
		if err := b.account.SetState(sim.ICCID.String(), d.Target()); err != nil {
			b.t.Fatal(err)
		}
		result, err := send(b.t.Context())
		b.oneRequest(d)
		if err != nil {
			e := b.failure(err)
			if class := b.class(e); class != carrier.ClassAlreadyInState && class != carrier.ClassInvalid {
				b.t.Errorf("a %s of a SIM in that state is %s (%v)", d, class, e)
			}
		} else if result.State != nil && !result.State.Pending && result.State.State != d.Target() {
			b.t.Errorf("the answer's state is %+v", result.State)
		}
		if got := b.truth(sim.ICCID.String()).State; got != d.Target() {
			b.t.Errorf("the SIM is %s at the carrier, want %s", got, d.Target())
		}
	})
}

func lieIsRead(t *testing.T, s Suite) {
	both(t, s, lab.AccountSpec{}, func(b *bench, sim carrier.SIMRef, d simwarden.Direction, send func(context.Context) (carrier.Result, error)) {
		b.fault(lab.Fault{Name: lab.LieOK, Count: 1})
		if _, err := send(b.t.Context()); err != nil {
			b.t.Fatal(b.failure(err))
		}
		reading, err := b.conn.State(b.t.Context(), sim)
		if err != nil {
			b.t.Fatal(b.failure(err))
		}
		if reading.State.State != d.Opposite().Target() {
			b.t.Errorf("the SIM reads as %s after a lie, want %s: nothing was done", reading.State.State, d.Opposite().Target())
		}
	})
}

func changeTakesTime(t *testing.T, s Suite) {
	const delay = 40 * time.Second
	both(t, s, lab.AccountSpec{ChangeDelay: delay}, func(b *bench, sim carrier.SIMRef, d simwarden.Direction, send func(context.Context) (carrier.Result, error)) {
		result, err := send(b.t.Context())
		if err != nil {
			b.t.Fatal(b.failure(err))
		}
		b.oneRequest(d)
		if s.Delayed && (result.Outcome != carrier.Accepted || result.State == nil || !result.State.Pending) {
			b.t.Errorf("a change that is still to come is %+v, want accepted and pending", result)
		}
		reading, err := b.conn.State(b.t.Context(), sim)
		if err != nil {
			b.t.Fatal(b.failure(err))
		}
		if s.Delayed && (!reading.State.Pending || reading.State.State == d.Target()) {
			b.t.Errorf("before it is made it reads as %+v, want pending", *reading.State)
		}
		b.clock.Advance(delay + time.Second)
		if reading, err = b.conn.State(b.t.Context(), sim); err != nil {
			b.t.Fatal(b.failure(err))
		}
		if reading.State.State != d.Target() || reading.State.Pending {
			b.t.Errorf("after it was made it reads as %+v, want %s", *reading.State, d.Target())
		}
	})
}

func endedContext(t *testing.T, s Suite) {
	both(t, s, lab.AccountSpec{}, func(b *bench, sim carrier.SIMRef, _ simwarden.Direction, send func(context.Context) (carrier.Result, error)) {
		ctx, cancel := context.WithCancel(b.t.Context())
		cancel()
		before := b.world.Requests()
		if _, err := send(ctx); b.failure(err).HTTPStatus != 0 {
			b.t.Errorf("an answer came in an ended context: %v", err)
		}
		if _, err := b.conn.State(ctx, sim); err == nil {
			b.t.Error("a read in an ended context succeeded")
		}
		if n := b.world.Requests() - before; n != 0 {
			b.t.Errorf("the carrier saw %d requests from an ended context", n)
		}
	})
}
