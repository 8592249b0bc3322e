package gateway

import (
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/clock"
	"github.com/simwarden/simwarden/internal/store"
)

func TestALeaseThatFoundNothingIsNotAskedAgainAtOnce(t *testing.T) {
	// G4: one slot is in hand and near, two wait, and the next slot lies beyond their end.
	r := newRig(t)
	a := r.account("a", "gatewaytest", "http://127.0.0.1:1")
	r.limit(a, simwarden.GroupEnforce, "", 1)
	manual := clock.NewManual(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
	l := r.gateway(Options{}).limiter
	l.clock = manual
	ln := newLine(l, lineKey{group: a.LimitGroupID}, lineLimits{perSecond: 1})
	now := manual.Now()
	ln.slots = []slot{{start: now.Add(70 * time.Millisecond), until: now.Add(100 * time.Millisecond), polls: true}}
	poll := Call{Operation: simwarden.OpQueryState, Purpose: simwarden.PurposePoll}
	ln.serving = true // by this test
	for range 2 {
		ln.join(newWaiter(poll, now.Add(2*time.Second)))
	}
	nothing := store.SlotLease{Limited: true, NowAt: now, FirstAt: now.Add(2170 * time.Millisecond), Step: 1050 * time.Millisecond}
	ln.leased(store.SlotAsk{Polls: 2, Within: 2 * time.Second}, now, now, nothing, nil)

	next, leasing, ok := ln.step()
	if !ok || leasing != nil || next != 70*time.Millisecond {
		t.Errorf("looks again after %s, asks again at once: %t; want it to wait for the slot in hand", next, leasing != nil)
	}
	ln.join(newWaiter(poll, now.Add(10*time.Second)))
	_, leasing, _ = ln.step()
	if leasing == nil {
		t.Fatal("somebody came who can wait for longer, and nothing is asked for")
	}
	<-leasing
}
