package carriertest

import (
	"sync"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/lab"
)

func tokens(s Suite) []check {
	if !s.Tokens {
		return nil
	}
	return []check{
		{"F34: 32 at once log in once, and once more when the token has ended", oneLogin},
		{"F34: a token near its end by the clock is renewed before a command, not by it", renewsBefore},
		{"F34: a read logs in and repeats itself once, and no more", readRepeatsOnce},
		{"F35: a refused login is told as such, and the command is not sent", loginRefused},
		{"F24: a login's answer that is not understood gives no token", loginGarbage},
	}
}

// crowd is how many goroutines use one connection at once.
const crowd = 32

func oneLogin(t *testing.T, s Suite) {
	b := s.open(t, lab.AccountSpec{})
	sim := b.sim(simwarden.StateActive)
	for round, end := range []func(){func() {}, b.account.ExpireTokens} {
		end()
		b.doer.take()
		var wait sync.WaitGroup
		start := make(chan struct{})
		for range crowd {
			wait.Go(func() {
				<-start
				if _, err := b.conn.State(t.Context(), sim); err != nil {
					t.Errorf("round %d: %v", round, err)
				}
			})
		}
		close(start)
		wait.Wait()
		if n := b.doer.count(simwarden.OpToken); n != 1 {
			t.Errorf("round %d: %d at once logged in %d times, want once (F34)", round, crowd, n)
		}
	}
}

func renewsBefore(t *testing.T, s Suite) {
	b := s.open(t, lab.AccountSpec{})
	sim := b.sim(simwarden.StateActive)
	if _, err := b.conn.State(t.Context(), sim); err != nil {
		t.Fatal(b.failure(err))
	}
	b.doer.take()
	b.clock.Advance(30 * 24 * time.Hour) // beyond the life of any token
	if _, err := b.conn.Suspend(t.Context(), sim); err != nil {
		t.Fatalf("a suspend after the token's end: %v", b.failure(err))
	}
	sent := b.doer.take()
	if len(sent) != 2 || sent[0] != simwarden.OpToken || sent[1] != simwarden.OpSuspend {
		t.Errorf("sent %v, want a login and then the suspend", sent)
	}
	if n := b.changes(); n != 1 {
		t.Errorf("the carrier saw %d state-changing requests: one attempt is one request (C4)", n)
	}
}

func readRepeatsOnce(t *testing.T, s Suite) {
	b := s.open(t, lab.AccountSpec{})
	sim := b.sim(simwarden.StateActive)
	if _, err := b.conn.State(t.Context(), sim); err != nil {
		t.Fatal(b.failure(err))
	}
	b.account.ExpireTokens()
	b.doer.take()
	if _, err := b.conn.State(t.Context(), sim); err != nil {
		t.Fatalf("a read with an old token: %v", b.failure(err))
	}
	if sent := b.doer.take(); len(sent) != 3 {
		t.Errorf("sent %v, want the read, a login and the read again", sent)
	}
	b.fault(lab.Fault{Name: lab.AuthFail, Operations: []simwarden.Operation{simwarden.OpQueryState}})
	_, err := b.conn.State(t.Context(), sim)
	if e := b.failure(err); b.class(e) != carrier.ClassAuth || e.TokenExpired {
		t.Errorf("a fresh token that is refused is %s (%v), token expired: %v; want auth", b.class(e), e, e.TokenExpired)
	}
	if sent := b.doer.take(); len(sent) != 3 {
		t.Errorf("sent %v, want one repetition and no more", sent)
	}
}

func loginRefused(t *testing.T, s Suite) {
	b := s.open(t, lab.AccountSpec{})
	sim := b.sim(simwarden.StateActive)
	b.fault(lab.Fault{Name: lab.AuthFail, Operations: []simwarden.Operation{simwarden.OpToken}})
	_, err := b.conn.Suspend(t.Context(), sim)
	if e := b.failure(err); e.Operation != simwarden.OpToken || b.class(e) != carrier.ClassAuth || e.TokenExpired {
		t.Errorf("a refused login is %v, class %s, want operation token, auth", e, b.class(e))
	}
	if n := b.changes(); n != 0 {
		t.Errorf("the carrier saw %d state-changing requests without a token", n)
	}
	if sent := b.doer.take(); len(sent) != 1 {
		t.Errorf("sent %v, want one login: carriers lock accounts (F35)", sent)
	}
}

func loginGarbage(t *testing.T, s Suite) {
	for _, variant := range garbageVariants {
		b := s.open(t, lab.AccountSpec{})
		sim := b.sim(simwarden.StateActive)
		b.fault(lab.Fault{Name: lab.Garbage, Variant: variant, Operations: []simwarden.Operation{simwarden.OpToken}})
		_, err := b.conn.Suspend(t.Context(), sim)
		if err == nil {
			t.Errorf("%s was taken for a login", variant)
			continue
		}
		if e := b.failure(err); !e.BadAnswer || e.Operation != simwarden.OpToken {
			t.Errorf("%s at login is %v, bad answer: %v", variant, e, e.BadAnswer)
		}
		if n := b.changes(); n != 0 {
			t.Errorf("%s at login: the carrier saw %d state-changing requests", variant, n)
		}
	}
}
