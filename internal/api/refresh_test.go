package api_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"

	"github.com/simwarden/simwarden/app"
	"github.com/simwarden/simwarden/internal/store"
)

// nowhere lets the service ask carriers, none of which can be reached.
func (w *world) nowhere() {
	w.t.Helper()
	asker, err := app.NewAsker(w.t.Context(), app.Config{Store: w.store, Keyring: w.service.Keyring, Clock: w.clock,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no network in tests") }})
	if err != nil {
		w.t.Fatal(err)
	}
	w.service.Asker = asker
}

// databaseClock stops the database's clock at an instant.
func (w *world) databaseClock(at string) {
	w.t.Helper()
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Exec(ctx, `CREATE OR REPLACE FUNCTION app_now() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$SELECT '`+at+`'::timestamptz$$`)
		return err
	})
}

func TestG2ARefreshTellsWhatWasNotRead(t *testing.T) {
	w, _, id := fleet(t)
	if got := w.want(http.StatusServiceUnavailable, "POST", simURL(1, "/refresh"), nil); got["code"] != "no_carriers" {
		t.Errorf("a process that calls no carriers says %v", got)
	}
	w.nowhere()
	got := w.want(http.StatusOK, "POST", simURL(1, "/refresh"), nil)
	if at(t, got, "checks", 0, "read") != false || at(t, got, "checks", 0, "why_not", "message") != "the carrier could not be reached" || at(t, got, "sim", "state") != "active" {
		t.Errorf("a carrier that cannot be reached: %v", got)
	}
	if n := w.rows(`SELECT count(*) FROM audit WHERE sim_id = $1 AND action = 'sim_refresh' AND actor = 'token:anna'`, id); n != 1 {
		t.Errorf("%d audit rows of one refresh (R2)", n)
	}
	w.want(http.StatusNotFound, "POST", simURL(77, "/refresh"), nil)
}

func TestAnAccountIsTestedAndAPersonToldWhatToDo(t *testing.T) {
	w, a, _ := fleet(t)
	w.nowhere()
	got := w.want(http.StatusOK, "POST", "/api/v1/accounts/acme/test", nil)
	if got["ok"] != false || at(t, got, "why_not", "message") != "the carrier could not be reached" {
		t.Errorf("a carrier that cannot be reached: %v", got)
	}
	contains(t, "the advice", got["advice"].(string), "DNS")
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.StopAccount(ctx, a.ID, "refused")
		return err
	})
	w.nowhere() // reads the account as it is now
	got = w.want(http.StatusOK, "POST", "/api/v1/accounts/acme/test", nil)
	if at(t, got, "why_not", "class") != "stopped" {
		t.Errorf("an account whose calls are stopped: %v", got)
	}
	contains(t, "the advice", got["advice"].(string), "simwarden account start acme")
	w.want(http.StatusNotFound, "POST", "/api/v1/accounts/nobody/test", nil)
	if n := w.rows(`SELECT count(*) FROM audit WHERE account_id = $1 AND action = 'account_test' AND actor = 'token:anna'`, a.ID); n != 2 {
		t.Errorf("%d audit rows of two tests (R2)", n)
	}
}

func TestG2OnePersonAsksCarriersSoOftenOnly(t *testing.T) {
	// Calls of persons pass the limits, so that a program must not make its polls with them.
	w, _, id := fleet(t)
	w.nowhere()
	w.databaseClock("2026-05-04 12:00:00Z")
	for i := range store.PersonCalls {
		if status, got := w.call("POST", simURL(1, "/refresh"), nil); status != http.StatusOK {
			t.Fatalf("refresh %d of %d in a row: HTTP %d %v", i+1, store.PersonCalls, status, got)
		}
	}
	got := w.want(http.StatusTooManyRequests, "POST", simURL(1, "/refresh"), nil)
	contains(t, "the refusal", got["detail"].(string), "30 times", "again in 2s")
	if n := w.rows(`SELECT count(*) FROM audit WHERE sim_id = $1 AND action = 'sim_refresh'`, id); n != store.PersonCalls {
		t.Errorf("%d audit rows, want one for each that was let through", n)
	}
	if _, err := w.service.Refresh(t.Context(), numbered(1).String(), "token:ben"); err != nil {
		t.Errorf("another person has to wait too: %v", err)
	}
	w.databaseClock("2026-05-04 12:00:02Z")
	w.want(http.StatusOK, "POST", simURL(1, "/refresh"), nil)
	w.want(http.StatusTooManyRequests, "POST", simURL(1, "/refresh"), nil)
}
