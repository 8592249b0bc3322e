package poller_test

import (
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/poller"
	"github.com/simwarden/simwarden/lab"
)

func TestP7AListThatNamesSIMsAloneIsNotTakenForTheirStates(t *testing.T) {
	r := newRig(t)
	at, row, _ := r.account(lab.AccountSpec{Name: "cmcc", Dialect: "onelink"}, 30, time.Second)
	for _, holder := range []string{"node-a", "node-b"} {
		r.poller(poller.Options{Holder: holder})
	}
	r.until("every SIM's state and usage are read", func() bool {
		return r.one(`SELECT count(*) FROM poll_state WHERE state_read_at IS NULL OR usage_counter_bytes IS NULL`) == 0
	})
	if n := r.differ(at, row); n != 0 {
		t.Errorf("%d SIMs are kept in another state than they have", n)
	}
	asked := map[simwarden.Operation]int{}
	for _, c := range r.world.Counters() {
		asked[c.Operation] += c.Requests
	}
	if n := asked[simwarden.OpListSIMs]; n != 0 {
		t.Errorf("the carrier was asked for %d pages of a list that tells no states", n)
	}
	if logins := asked[simwarden.OpToken]; logins != 1 {
		t.Errorf("F34: two nodes logged in %d times, want one login for both", logins)
	}
}
