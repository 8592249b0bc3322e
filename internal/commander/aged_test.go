package commander

import (
	"testing"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/store"
)

func TestG5WhatHasWaitedLongTakesAQuarterOfTheLaneAndRisesToAPaidSIMsResume(t *testing.T) {
	if p := reconcile.Priority(simwarden.DirectionResume, simwarden.SceneToppedUp); p != store.AgedPriority {
		t.Errorf("a paid SIM's resume has priority %d, what has waited long %d", p, store.AgedPriority)
	}
	for workers, want := range map[int]int{1: 1, 16: 4} {
		l := newLanes(&Commander{Options: Options{Workers: workers}}, contexts{})
		entered := 0
		for id := range simwarden.CommandID(workers + 1) {
			if l.enter(store.DueStep{ID: id, AccountID: 7, Aged: true}) {
				entered++
			}
		}
		if entered != want {
			t.Errorf("of %d places %d went to what has waited long, want %d", workers, entered, want)
		}
		for id := range simwarden.CommandID(workers - want) {
			if !l.enter(store.DueStep{ID: 100 + id, AccountID: 7}) {
				t.Fatalf("place %d of %d is kept from others", int(id)+want+1, workers)
			}
		}
		for id := range simwarden.CommandID(want) {
			l.leave(id)
		}
		if !l.enter(store.DueStep{ID: 50, AccountID: 7, Aged: true}) {
			t.Error("no place again for what has waited long")
		}
	}
}
