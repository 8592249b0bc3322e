package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	_ "github.com/simwarden/simwarden/carrier/onelink" // a driver whose login ends the one before
	"github.com/simwarden/simwarden/internal/secret"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/lab"
	_ "github.com/simwarden/simwarden/lab/onelink"
)

// tokenRig is a carrier of one dialect, and two nodes that call it.
type tokenRig struct {
	*rig
	world *lab.World
	at    *lab.Account
	row   store.Account
	sims  []carrier.SIMRef
	nodes []*Gateway
}

// newTokenRig has the carrier at which a login ends the one before.
func newTokenRig(t *testing.T) *tokenRig {
	t.Helper()
	return newLabRig(t, "onelink")
}

func newLabRig(t *testing.T, dialect string) *tokenRig {
	t.Helper()
	r := &tokenRig{rig: newRig(t), world: lab.New(lab.Config{Seed: 34})}
	var err error
	if r.at, err = r.world.AddAccount(lab.AccountSpec{Name: dialect, Dialect: dialect}); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		truth, err := r.at.AddSIM(lab.NewSIM{})
		if err != nil {
			t.Fatal(err)
		}
		r.sims = append(r.sims, carrier.SIMRef{ICCID: simwarden.MustParseICCID(truth.ICCID), Key: truth.Key})
	}
	server, err := r.world.Serve(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.world.Close()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	r.tx(func(tx *store.Tx) error {
		r.row, err = tx.AddAccount(t.Context(), store.Account{Name: dialect, Driver: dialect, BaseURL: r.at.BaseURL(server.URL)})
		return err
	})
	r.credentials(r.at.Credentials())
	r.nodes = []*Gateway{r.gateway(Options{Holder: "north"}), r.gateway(Options{Holder: "south"})}
	return r
}

func (r *tokenRig) credentials(values map[string]string) {
	r.t.Helper()
	plain, err := json.Marshal(values)
	if err != nil {
		r.t.Fatal(err)
	}
	sealed, err := r.keyring.Seal("account", strconv.FormatInt(int64(r.row.ID), 10), plain)
	if err != nil {
		r.t.Fatal(err)
	}
	r.tx(func(tx *store.Tx) error { return tx.SetCredential(r.t.Context(), r.row.ID, sealed) })
}

// logins counts the token requests that the carrier has seen (V7 counts them).
func (r *tokenRig) logins() int {
	n := 0
	for _, c := range r.world.Counters() {
		if c.Operation == simwarden.OpToken {
			n += c.Requests
		}
	}
	return n
}

// readAll reads every SIM on every node at once, several times.
func (r *tokenRig) readAll(times int) {
	r.t.Helper()
	var wait sync.WaitGroup
	for _, node := range r.nodes {
		for _, sim := range r.sims {
			wait.Go(func() {
				for range times {
					err := node.Do(r.t.Context(), r.row.ID, poll, func(ctx context.Context, conn carrier.Conn) error {
						_, err := conn.State(ctx, sim)
						return err
					})
					if err != nil {
						r.t.Error(err)
					}
				}
			})
		}
	}
	wait.Wait()
}

func TestF34TwoNodesShareOneLoginAndNeverPingPong(t *testing.T) {
	r := newTokenRig(t)
	r.readAll(10)
	if n := r.logins(); n != 1 {
		t.Fatalf("two nodes logged in %d times, want once for both", n)
	}
	for round := range 5 {
		r.at.ExpireTokens()
		r.readAll(10)
		if n := r.logins(); n != round+2 {
			t.Fatalf("after %d expired tokens there were %d logins: one refresh each, whoever makes it", round+1, n)
		}
	}
}

func TestF34ARefusedCommandIsNotSentAgainAndTheNextOneHasAnothersLogin(t *testing.T) {
	r := newTokenRig(t)
	r.readAll(1)
	r.at.ExpireTokens()
	do := func(node int) error {
		return r.nodes[node].Do(t.Context(), r.row.ID, command, func(ctx context.Context, conn carrier.Conn) error {
			_, err := conn.Suspend(ctx, r.sims[0])
			return err
		})
	}
	var e *carrier.Error
	if err := do(0); !errors.As(err, &e) || e.Class != carrier.ClassTemporary || !e.TokenExpired || e.NotSent {
		t.Fatalf("a command with a token that has ended is %v, want temporary (C4, G8)", err)
	}
	if n := r.logins(); n != 1 {
		t.Errorf("the refused command made %d logins", n-1)
	}
	// The other node meets the dead token by a read, and gets another for both.
	if err := r.nodes[1].Do(t.Context(), r.row.ID, poll, func(ctx context.Context, conn carrier.Conn) error {
		_, err := conn.State(ctx, r.sims[1])
		return err
	}); err != nil {
		t.Fatal(err)
	}
	r.at.SetLimits(lab.Limits{PerSIMGap: -1}) // the refused one counts at the carrier; its pause is another test's
	if err := do(0); err != nil {
		t.Fatalf("the next attempt: %v", err)
	}
	if n := r.logins(); n != 2 {
		t.Errorf("%d logins, want one at the start and one for the token that ended", n)
	}
	if truth, _ := r.at.SIM(r.sims[0].Key); truth.State != simwarden.StateSuspended || truth.Executions != 1 {
		t.Errorf("the SIM is %s after %d executions", truth.State, truth.Executions)
	}
}

func TestF34ANodeThatDiesLoggingInHoldsTheOthersUpForItsLeaseAlone(t *testing.T) {
	r := newTokenRig(t)
	ctx := t.Context()
	if _, ok, err := r.store.TakeTokenLease(ctx, r.row.ID, "dead", 300*time.Millisecond); err != nil || !ok {
		t.Fatal(ok, err)
	}
	begun := time.Now()
	r.readAll(1)
	if n, waited := r.logins(), time.Since(begun); n != 1 || waited < 250*time.Millisecond {
		t.Errorf("%d logins after %s, want one when the lease has run out", n, waited)
	}
}

func TestF3ALoginWhoseLeaseRanOutDoesNotWriteOverItsSuccessors(t *testing.T) {
	r := newTokenRig(t)
	ctx := t.Context()
	r.readAll(1)
	tokens := &tokenStore{gateway: r.nodes[0], id: r.row.ID, scope: tokenScope(r.row, r.at.Credentials())}
	kept, made, err := tokens.Renew(ctx, carrier.Token{}, nil) // a login would panic
	if err != nil || made || kept.Value == "" {
		t.Fatalf("the kept token is %v, made %v, %v", kept.EndsAt, made, err)
	}
	live := time.Now().Add(time.Hour)
	got, made, err := tokens.Renew(ctx, kept, func(ctx context.Context) (carrier.Token, error) {
		// While this node hangs its lease runs out, and another logs in.
		if err := r.store.GiveTokenLease(ctx, r.lease()); err != nil {
			return carrier.Token{}, err
		}
		other, made, err := tokens.Renew(ctx, kept, func(context.Context) (carrier.Token, error) {
			return carrier.Token{Value: "the successor's", EndsAt: live}, nil
		})
		if err != nil || !made || other.Value != "the successor's" {
			t.Errorf("the successor got %+v, made %v, %v", other, made, err)
		}
		return carrier.Token{Value: "the late one's", EndsAt: live}, nil
	})
	if err != nil || made || got.Value != "the successor's" {
		t.Errorf("the late one got %q, made %v, %v; want the successor's token", got.Value, made, err)
	}
}

// lease is the one that is held now.
func (r *tokenRig) lease() store.TokenLease {
	r.t.Helper()
	l := store.TokenLease{AccountID: r.row.ID}
	r.tx(func(tx *store.Tx) error {
		return tx.QueryRow(r.t.Context(), `SELECT holder, epoch FROM carrier_token WHERE account_id = $1`, r.row.ID).Scan(&l.Holder, &l.Epoch)
	})
	return l
}

func TestB10KeptLoginsAreSealedForTheirAccountAndTheirCredentials(t *testing.T) {
	r := newTokenRig(t)
	r.readAll(1)
	sealed, err := r.store.CarrierToken(t.Context(), r.row.ID)
	if err != nil || len(sealed) == 0 {
		t.Fatalf("%d bytes are kept, %v", len(sealed), err)
	}
	if json.Valid(sealed) {
		t.Error("a token is kept as it is")
	}
	if _, err := r.keyring.Open(tokenTable, "0", sealed); !errors.Is(err, secret.ErrNotOpened) {
		t.Errorf("it opens for another account: %v", err)
	}
	// Another password: what was got with the old one is none of ours.
	r.at.SetCredential("password", "another-invented")
	r.credentials(r.at.Credentials())
	for _, node := range r.nodes {
		if err := node.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	r.readAll(2)
	if n := r.logins(); n != 2 {
		t.Errorf("%d logins, want one with each password", n)
	}
}

func TestF35AWrongPasswordIsNotTriedByEachCaller(t *testing.T) {
	r := newTokenRig(t)
	r.credentials(map[string]string{"appid": r.at.Credential("appid"), "password": "wrong-invented"})
	var wait sync.WaitGroup
	for _, node := range r.nodes {
		for range 16 {
			wait.Go(func() {
				err := node.Do(t.Context(), r.row.ID, poll, func(ctx context.Context, conn carrier.Conn) error {
					_, err := conn.State(ctx, r.sims[0])
					return err
				})
				var e *carrier.Error
				if !errors.As(err, &e) || e.Class != carrier.ClassAuth && e.Class != carrier.ClassStopped {
					t.Errorf("got %v, want auth or stopped", err)
				}
			})
		}
	}
	wait.Wait()
	// Those who wait for a login share its failure; a caller may slip between that and the stop.
	if n := r.logins(); n < 1 || n > 8 {
		t.Errorf("a wrong password was tried %d times by %d nodes", n, len(r.nodes))
	}
}
