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

func jobs(s Suite) []check {
	if _, ok := s.capabilities().(carrier.JobFollower); !ok {
		return nil
	}
	return []check{
		{"C7: an accepted command is followed by its handle until it is made", jobIsFollowed},
		{"C7: an accepted command that came to nothing says so, and may be sent again", jobFails},
		{"C7: a handle that is not the carrier's is not asked about, or told as an error", foreignHandle},
	}
}

const jobDelay = 40 * time.Second

func jobIsFollowed(t *testing.T, s Suite) {
	both(t, s, lab.AccountSpec{ChangeDelay: jobDelay}, func(b *bench, sim carrier.SIMRef, _ simwarden.Direction, send func(context.Context) (carrier.Result, error)) {
		result, err := send(b.t.Context())
		if err != nil {
			b.t.Fatal(b.failure(err))
		}
		if result.Outcome != carrier.Accepted || result.Handle == "" {
			b.t.Fatalf("a change that is still to come is %+v, want accepted with a handle", result)
		}
		b.doer.take()
		follower := b.conn.(carrier.JobFollower)
		state, err := follower.Job(b.t.Context(), sim, result.Handle)
		if err != nil || state.Finished || state.Err != nil {
			b.t.Errorf("before it is made its job is %+v, %v", state, err)
		}
		if sent := b.doer.take(); !slices.Equal(sent, []simwarden.Operation{simwarden.OpQueryJob}) {
			b.t.Errorf("following a job sent requests of operations %v", sent)
		}
		b.clock.Advance(jobDelay + time.Second)
		state, err = follower.Job(b.t.Context(), sim, result.Handle)
		if err != nil || !state.Finished || state.Err != nil {
			b.t.Errorf("after it was made its job is %+v, %v", state, err)
		}
	})
}

func jobFails(t *testing.T, s Suite) {
	both(t, s, lab.AccountSpec{ChangeDelay: jobDelay}, func(b *bench, sim carrier.SIMRef, d simwarden.Direction, send func(context.Context) (carrier.Result, error)) {
		result, err := send(b.t.Context())
		if err != nil {
			b.t.Fatal(b.failure(err))
		}
		// A person at the portal sets the state, which drops what was under way.
		if err := b.account.SetState(sim.ICCID.String(), d.Opposite().Target()); err != nil {
			b.t.Fatal(err)
		}
		b.clock.Advance(jobDelay + time.Second)
		state, err := b.conn.(carrier.JobFollower).Job(b.t.Context(), sim, result.Handle)
		if err != nil {
			b.t.Fatal(b.failure(err))
		}
		if !state.Finished || state.Err == nil {
			b.t.Fatalf("a job that came to nothing is %+v", state)
		}
		if e := b.failure(state.Err); b.class(e).Terminal() || e.Operation != simwarden.OpQueryJob {
			b.t.Errorf("a job that came to nothing is %s of %s: it may be tried again", b.class(e), e.Operation)
		}
	})
}

func foreignHandle(t *testing.T, s Suite) {
	b := s.open(t, lab.AccountSpec{})
	sim := b.sim(simwarden.StateActive)
	for _, handle := range []string{"", "?", "order:../../x", "order:", "job:a b"} {
		state, err := b.conn.(carrier.JobFollower).Job(t.Context(), sim, handle)
		if err == nil {
			t.Errorf("handle %q is %+v", handle, state)
			continue
		}
		if e := b.failure(err); e.Operation != simwarden.OpQueryJob {
			t.Errorf("handle %q: the error is of operation %s", handle, e.Operation)
		}
	}
}
