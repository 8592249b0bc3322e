package commander_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/plans"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/lab"
)

func TestF30ASIMThatFlapsIsNotChangedAgainAndAgain(t *testing.T) {
	r := newRig(t)
	id, iccid := r.sim(simwarden.StateActive)
	r.subscribe(id)
	r.fault(lab.Fault{Name: lab.Flap})
	flap := func() {
		t.Helper()
		r.observe(id, simwarden.StateSuspended) // as a poll has it
		r.run()
		for range 20 { // what was sent is read until it shows
			r.clock.Advance(30 * time.Second)
			r.run()
		}
		r.observe(id, simwarden.StateActive)
		r.run()
	}
	for range 60 { // ten hours
		flap()
	}
	if n := len(r.changes(iccid)); n != 6 {
		t.Errorf("the carrier saw %d requests for a SIM that flaps, want the 6 of a day", n)
	}
	if len(r.alerts(store.AlertFlapping)) != 1 {
		t.Errorf("alerts %v, want one of the SIM", r.alerts(store.AlertFlapping))
	}
	r.observe(id, simwarden.StateSuspended)
	r.run()
	c := r.open(id)
	if !strings.Contains(c.HeldBy, "the SIM flaps") || c.RunAt.Sub(r.clock.Now()) < 10*time.Hour {
		t.Fatalf("the resume waits for %q until %s", c.HeldBy, c.RunAt)
	}

	// A top-up's resume takes its place and goes out at once.
	before := len(r.changes(iccid))
	r.tx(func(ctx context.Context, tx *store.Tx) error {
		p, err := tx.AddPlan(ctx, simwarden.Plan{Code: "extra", Name: "extra", Kind: simwarden.PlanAddon, AllowanceBytes: 1_000_000,
			ValidityUnit: simwarden.ValidityDays, ValidityCount: 30, Reset: simwarden.ResetNone, Zone: "UTC"})
		if err != nil {
			return err
		}
		_, err = plans.Subscribe(ctx, tx, plans.Order{Asset: store.Asset{SIMID: id}, Plan: p, By: "test"})
		return err
	})
	r.work()
	if got := r.command(c.ID); got.State != simwarden.CommandReplaced {
		t.Errorf("the command that waited is %s", got.State)
	}
	r.run()
	if n := len(r.changes(iccid)) - before; n != 1 {
		t.Errorf("%d requests follow a top-up, want one at once: %+v", n, r.commands(id)[0])
	}
	if c := r.commands(id)[0]; c.Scene != simwarden.SceneToppedUp {
		t.Errorf("the request is of scene %s", c.Scene)
	}
}
