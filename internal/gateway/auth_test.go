package gateway

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	_ "github.com/simwarden/simwarden/carrier/soracom"
	_ "github.com/simwarden/simwarden/carrier/supersim"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/lab"
	_ "github.com/simwarden/simwarden/lab/soracom"
	_ "github.com/simwarden/simwarden/lab/supersim"
)

// read and stop make one call for the first SIM and give its class, "" where it went well.
func (r *tokenRig) read() carrier.Class {
	r.t.Helper()
	return r.call(poll, func(ctx context.Context, conn carrier.Conn) error {
		_, err := conn.State(ctx, r.sims[0])
		return err
	})
}

func (r *tokenRig) stop() carrier.Class {
	r.t.Helper()
	return r.call(command, func(ctx context.Context, conn carrier.Conn) error {
		_, err := conn.Suspend(ctx, r.sims[0])
		return err
	})
}

func (r *tokenRig) call(call Call, fn func(context.Context, carrier.Conn) error) carrier.Class {
	r.t.Helper()
	err := r.nodes[0].Do(r.t.Context(), r.row.ID, call, fn)
	var e *carrier.Error
	if err != nil && !errors.As(err, &e) {
		r.t.Fatal(err)
	}
	if e == nil {
		return ""
	}
	return e.Class
}

// stoppedOnce says whether the account's calls have stopped, on this node and by the database, and wants
// exactly one alert of it then, else none.
func (r *tokenRig) stoppedOnce() bool {
	r.t.Helper()
	row, err := r.store.Account(r.t.Context(), r.row.ID)
	if err != nil {
		r.t.Fatal(err)
	}
	alerts, err := r.store.OpenAlerts(r.t.Context(), 10)
	if err != nil {
		r.t.Fatal(err)
	}
	stopped, alerted := !row.StoppedAt.IsZero(), 0
	for _, a := range alerts {
		if a.Kind == store.AlertAuth && a.AccountID == r.row.ID {
			alerted++
		}
	}
	if stopped != (alerted == 1) || alerted > 1 {
		r.t.Errorf("the account is stopped: %v, with %d alerts of it (G8)", stopped, alerted)
	}
	before := r.world.Requests()
	if class := r.read(); stopped != (class == carrier.ClassStopped) || stopped && r.world.Requests() != before {
		r.t.Errorf("the account is stopped: %v, and another call is %q after %d requests (G8)", stopped, class, r.world.Requests()-before)
	}
	return stopped
}

func (r *tokenRig) fault(f lab.Fault) {
	r.t.Helper()
	if _, err := r.world.SetFault(f); err != nil {
		r.t.Fatal(err)
	}
}

// TestG8WhatARefusalOfALoginOrTokenMeans holds all drivers to one rule. A refused token is renewed once:
// by a read at once, by a change with its next attempt (C4). What is refused after that, or has nothing to
// renew, are the credentials: all calls stop at once, with one alert (F35).
func TestG8WhatARefusalOfALoginOrTokenMeans(t *testing.T) {
	reads, changes := []simwarden.Operation{simwarden.OpQueryState}, []simwarden.Operation{simwarden.OpSuspend}
	for _, dialect := range []string{"soracom", "onelink", "supersim"} {
		tokens := dialect != "supersim" // which sends its credentials with each request
		r := newLabRig(t, dialect)
		for _, row := range []struct {
			sentence string
			do       func(r *tokenRig)
			stops    bool
		}{
			{"a token that has ended is renewed, and the read repeated", func(r *tokenRig) {
				r.at.ExpireTokens()
				if class := r.read(); class != "" {
					r.t.Errorf("the read is %s", class)
				}
			}, false},
			{"one stray refusal of a read", func(r *tokenRig) {
				r.fault(lab.Fault{Name: lab.AuthFail, Operations: reads, Count: 1})
				r.read()
			}, !tokens},
			{"one stray refusal of a change, which goes through with its next attempt", func(r *tokenRig) {
				r.fault(lab.Fault{Name: lab.AuthFail, Operations: changes, Count: 1})
				r.stop()
				if class := r.stop(); tokens && class != "" {
					r.t.Errorf("the next attempt is %s", class)
				}
			}, !tokens},
			{"a read that is refused right after a good login", func(r *tokenRig) {
				r.fault(lab.Fault{Name: lab.AuthFail, Operations: reads})
				if class := r.read(); class != carrier.ClassAuth {
					r.t.Errorf("the read is %s, want auth", class)
				}
			}, true},
			{"a change that is refused again, while reads log in and are answered", func(r *tokenRig) {
				r.fault(lab.Fault{Name: lab.AuthFail, Operations: changes})
				for range 5 {
					r.stop()
					r.read()
				}
			}, true},
			{"a refused login", func(r *tokenRig) {
				r.at.ExpireTokens()
				r.fault(lab.Fault{Name: lab.AuthFail, Operations: []simwarden.Operation{simwarden.OpToken}})
				for range 5 {
					r.read()
				}
			}, tokens},
			{"everything is refused", func(r *tokenRig) {
				r.fault(lab.Fault{Name: lab.AuthFail})
				for range 5 {
					r.read()
					r.stop()
				}
			}, true},
		} {
			t.Run(dialect+": "+row.sentence, func(t *testing.T) {
				r.t = t
				r.world.ClearFaults()
				r.at.SetLimits(lab.Limits{PerSIMGap: -1}) // what is refused counts at the carrier
				r.tx(func(tx *store.Tx) error {
					return errors.Join(tx.StartAccount(t.Context(), r.row.ID), tx.ClearAlert(t.Context(), fmt.Sprintf("%s:%d", store.AlertAuth, r.row.ID), "person"))
				})
				if err := r.nodes[0].Reload(t.Context()); err != nil {
					t.Fatal(err)
				}
				if class := r.read(); class != "" {
					t.Fatalf("started by a person, the account's read is %s", class)
				}
				before := r.logins()
				row.do(r)
				if stopped := r.stoppedOnce(); stopped != row.stops {
					t.Errorf("the account is stopped: %v, want %v", stopped, row.stops)
				}
				if n := r.logins() - before; tokens && n != 1 {
					t.Errorf("%d logins, want one: carriers lock accounts", n)
				}
			})
		}
	}
}
