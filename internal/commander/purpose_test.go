package commander

import (
	"testing"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
)

func TestG2OnlyAPersonsSingleClickIsManual(t *testing.T) {
	for _, row := range []struct {
		sentence string
		scene    simwarden.Scene
		cause    string
		want     simwarden.Purpose
	}{
		{"a click on one SIM passes the limits", simwarden.SceneManual, store.CausePerson, simwarden.PurposeManual},
		{"a bulk action keeps to them", simwarden.SceneManual, store.CauseBulk, simwarden.PurposeCommand},
		{"so does what a plan's end causes", simwarden.ScenePlanLapsed, store.CauseSubscription, simwarden.PurposeCommand},
	} {
		if got := purposeOf(store.Command{Scene: row.scene, Cause: store.Cause{Kind: row.cause, ID: 1}}); got != row.want {
			t.Errorf("%s: purpose %s, want %s", row.sentence, got, row.want)
		}
	}
}
