package gateway

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/simwarden/simwarden/internal/store"
)

func TestG8AnOpenBreakerIsToldAndAfterAWhileAlerted(t *testing.T) {
	r := newRig(t)
	var sick atomic.Bool
	sick.Store(true)
	s := serve(t, func(w http.ResponseWriter, req *http.Request) {
		if sick.Load() {
			answer(503, `{"message":"down for now"}`)(w, req)
			return
		}
		ok(w, req)
	})
	a := r.account("a", "gatewaytest", s.URL)
	policy := BreakerPolicy{InARow: 3, Rest: time.Hour}
	patient := r.gateway(Options{Holder: "patient", Breaker: policy})
	hasty := r.gateway(Options{Holder: "hasty", Breaker: BreakerPolicy{InARow: 3, Rest: 20 * time.Millisecond, Probes: 1}, BreakerAlertAfter: time.Nanosecond})
	breakers := func() []store.AccountBreaker {
		t.Helper()
		list, err := r.store.BreakersOf(t.Context(), a.ID)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	alerts := func() []store.Alert {
		t.Helper()
		list, err := r.store.OpenAlerts(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	reload := func(g *Gateway) {
		t.Helper()
		if err := g.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, g := range []*Gateway{patient, hasty} {
		for range 3 {
			_ = failure(t, g.Do(t.Context(), a.ID, poll, state))
		}
	}
	reload(patient)
	list := breakers()
	if len(list) != 1 || list[0].Node != "patient" || !strings.Contains(list[0].Because, "503") || time.Until(list[0].ProbeAt) < 50*time.Minute {
		t.Errorf("breakers %+v; want the node's, with the reason and the next probe in an hour", list)
	}
	if list := alerts(); len(list) != 0 {
		t.Errorf("alerts %+v before five minutes are over", list)
	}
	reload(hasty)
	if list := alerts(); len(list) != 1 || list[0].Kind != store.AlertFailing || !strings.Contains(list[0].Message, "account a keeps failing") {
		t.Errorf("alerts %+v, want one of the account", list)
	}
	reload(hasty)
	if list := alerts(); len(list) != 1 || list[0].Times != 1 {
		t.Errorf("alerts %+v: told again at once", list)
	}

	// One node finds the carrier well; the other does not know yet.
	sick.Store(false)
	eventually(t, func() bool { return hasty.Do(t.Context(), a.ID, poll, state) == nil })
	reload(hasty)
	if list := breakers(); len(list) != 1 || list[0].Node != "patient" {
		t.Errorf("breakers %+v, want the other node's alone", list)
	}
	if len(alerts()) != 1 {
		t.Error("the alert is closed while a node's breaker is open")
	}
	patient.Drop(a.ID) // closes it
	reload(patient)
	if len(breakers()) != 0 || len(alerts()) != 0 {
		t.Errorf("breakers %+v and alerts %+v after all closed", breakers(), alerts())
	}
}
