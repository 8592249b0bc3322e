package commander_test

import (
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
)

// A carrier takes one step a minute, and there is always a suspend of an ended plan that goes before a
// periodic one: that is sent all the same, within AgedAfter and the two steps that it needs (G5).
func TestG5ALowPriorityCommandIsSentWithinTheBoundWhileHigherOnesKeepComing(t *testing.T) {
	r := newRig(t)
	const bound = store.AgedAfter + 2*time.Minute
	id, iccid := r.sim(simwarden.StateActive)
	r.subscribe(id)
	higher := int(bound/time.Minute) + 1
	for range higher {
		other, _ := r.sim(simwarden.StateActive)
		r.subscribe(other)
	}
	r.lapse()
	c := r.open(id)
	r.exec(`UPDATE command SET scene = 'periodic', priority = 50 WHERE id = $1`, c.ID)
	begun := r.clock.Now()
	for len(r.changes(iccid)) == 0 {
		if r.clock.Now().Sub(begun) > bound {
			t.Fatalf("the command is not sent after %s: %+v", bound, r.command(c.ID))
		}
		r.step()
		r.clock.Advance(time.Minute)
	}
	if r.count(`SELECT count(*) FROM command WHERE state = 'queued' AND priority > 50`) == 0 {
		t.Error("no higher one was waiting any more: the test shows nothing")
	}
}
