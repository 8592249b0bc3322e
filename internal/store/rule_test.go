package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/store"
)

func TestSyncDriverRules(t *testing.T) {
	s, _ := open(t)
	first := []carrier.Rule{
		{Name: "busy", Code: "1", Class: carrier.ClassInProgress},
		{Name: "gone", Operation: simwarden.OpSuspend, HTTPStatus: 4, Class: carrier.ClassTerminated, Extended: simwarden.ExtendedTerminated,
			ClosePolling: true, NotExecuted: true, ChangesOnly: true, Contains: "gone", Pattern: "g.ne", RetryAfterMin: 1500 * time.Millisecond},
	}
	sync := func(rules []carrier.Rule) (changed bool) {
		t.Helper()
		inTx(t, s, func(ctx context.Context, tx *store.Tx) (err error) {
			changed, err = tx.SyncDriverRules(ctx, "d", rules)
			return err
		})
		return changed
	}
	list := func() []store.ErrorRule {
		t.Helper()
		out, err := s.ErrorRules(t.Context(), "d")
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if !sync(first) || sync(first) {
		t.Error("the first writing changes, the second does not")
	}
	got := list()
	want := first[1]
	want.RetryAfterMin = 2 * time.Second // whole seconds, rounded up
	if len(got) != 2 || got[0].Rule != first[0] || got[1].Rule != want {
		t.Fatalf("got %+v", got)
	}
	// The operator moves one rule, changes the other, and adds one before them (G6).
	inTx(t, s, func(ctx context.Context, tx *store.Tx) error {
		if err := tx.MoveErrorRule(ctx, got[1].ID, 5); err != nil {
			return err
		}
		mine := got[0]
		mine.Rule.Class = carrier.ClassMaintenance
		if _, err := tx.PutErrorRule(ctx, mine); err != nil {
			return err
		}
		_, err := tx.PutErrorRule(ctx, store.ErrorRule{Driver: "d", Position: 1, Rule: carrier.Rule{Name: "mine", Class: carrier.ClassRefused}})
		return err
	})
	// A newer driver changes one rule and ships another.
	second := []carrier.Rule{first[0], first[1], {Name: "new", Class: carrier.ClassInvalid}}
	second[1].Class = carrier.ClassRefused
	sync(second)
	got = list()
	var names []string
	for _, r := range got {
		names = append(names, r.Rule.Name+" "+string(r.Rule.Class)+" "+string(r.Origin))
	}
	wantNames := []string{"mine refused operator", "gone refused driver", "busy maintenance operator", "new invalid driver"}
	if len(names) != len(wantNames) {
		t.Fatalf("got %v, want %v", names, wantNames)
	}
	for i := range names {
		if names[i] != wantNames[i] {
			t.Errorf("rule %d is %q, want %q", i, names[i], wantNames[i])
		}
	}
	sync(nil)
	if got := list(); len(got) != 2 {
		t.Errorf("rules that no longer ship stay: %+v", got)
	}
}

func TestPutErrorRuleIsChecked(t *testing.T) {
	s, _ := open(t)
	put := func(r store.ErrorRule) error {
		return s.InTx(t.Context(), func(tx *store.Tx) error {
			_, err := tx.PutErrorRule(t.Context(), r)
			return err
		})
	}
	good := store.ErrorRule{Driver: "d", Rule: carrier.Rule{Name: "x", Class: carrier.ClassInvalid}}
	if err := put(good); err != nil {
		t.Fatal(err)
	}
	if err := put(good); !errors.Is(err, store.ErrRuleExists) {
		t.Errorf("a name taken twice: got %v", err)
	}
	missing := good
	missing.ID = 1 << 40
	missing.Rule.Name = "y"
	if err := put(missing); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an id that is not there: got %v", err)
	}
	for sentence, rule := range map[string]carrier.Rule{
		"F47: a costly pattern":     {Name: "a", Class: carrier.ClassInvalid, Pattern: "((a{0,100}){0,10})*b"},
		"a class that is not there": {Name: "b", Class: "nonsense"},
		"a rule without a name":     {Class: carrier.ClassInvalid},
	} {
		if err := put(store.ErrorRule{Driver: "d", Rule: rule}); err == nil {
			t.Errorf("%s was taken", sentence)
		}
	}
}
