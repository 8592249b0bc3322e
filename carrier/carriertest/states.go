package carriertest

import (
	"maps"
	"slices"
	"testing"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/lab"
)

func states() []check {
	return []check{
		{"every word of the carrier reads as its state, with the raw word beside it", readsWords},
		{"a SIM that the carrier does not know is not_found, never terminated", tellsNotFound},
		{"a SIM without a known key is found by its ICCID", findsByICCID},
	}
}

func readsWords(t *testing.T, s Suite) {
	b := s.open(t, lab.AccountSpec{})
	sim := b.sim(simwarden.StateActive)
	seen := make(map[simwarden.State]bool)
	for _, word := range slices.Sorted(maps.Keys(s.Words)) {
		want := s.Words[word]
		if err := b.account.SetState(sim.ICCID.String(), simwarden.State(word)); err != nil {
			t.Logf("the lab has no SIMs in %q; the driver's own table covers it: %v", word, err)
			continue
		}
		reading, err := b.conn.State(t.Context(), sim)
		if err != nil {
			t.Fatalf("read a SIM in %q: %v", word, b.failure(err))
		}
		seen[want.State] = true
		got := reading.State
		switch {
		case got == nil:
			t.Errorf("%q reads as no state", word)
		case got.State != want.State || got.Pending != want.Pending || got.Extended != want.Extended || got.Raw != word:
			t.Errorf("%q reads as %+v, want %s, pending %v, extended %s", word, *got, want.State, want.Pending, want.Extended)
		}
		if reading.Key != sim.Key || !reading.ICCID.SameCard(sim.ICCID) {
			t.Errorf("asked for SIM %s (%s), read %s (%s)", sim.ICCID, sim.Key, reading.ICCID, reading.Key)
		}
		if !reading.ReadAt.Equal(b.clock.Now()) {
			t.Errorf("read at %v, want when the request was begun: %v", reading.ReadAt, b.clock.Now())
		}
	}
	for _, must := range []simwarden.State{simwarden.StateActive, simwarden.StateSuspended} {
		if !seen[must] {
			t.Errorf("no word of the carrier was read as %s", must)
		}
	}
}

func tellsNotFound(t *testing.T, s Suite) {
	b := s.open(t, lab.AccountSpec{})
	known := b.sim(simwarden.StateActive)
	stranger := s.stranger(t)
	for what, ref := range map[string]carrier.SIMRef{
		"by key":   {ICCID: stranger.ICCID, Key: stranger.Key},
		"by ICCID": {ICCID: stranger.ICCID},
	} {
		reading, err := b.conn.State(t.Context(), ref)
		if err == nil {
			t.Fatalf("%s: an unknown SIM read as %+v", what, reading)
		}
		if e := b.failure(err); b.class(e) != carrier.ClassNotFound {
			t.Errorf("%s: an unknown SIM is %s (%v), want not_found", what, b.class(e), e)
		}
		if reading.State != nil {
			t.Errorf("%s: a reading came with the error: %+v", what, reading)
		}
	}
	if resolver, ok := b.conn.(carrier.Resolver); ok {
		if key, err := resolver.Resolve(t.Context(), stranger.ICCID); err == nil || b.class(b.failure(err)) != carrier.ClassNotFound {
			t.Errorf("resolving an unknown ICCID gave %q, %v, want not_found", key, err)
		}
	}
	if b.truth(known.ICCID.String()).State != simwarden.StateActive {
		t.Error("a SIM changed state while others were asked for")
	}
}

// stranger is a SIM of the carrier's kind in an account of another world.
func (s Suite) stranger(t *testing.T) carrier.SIMRef {
	t.Helper()
	b := s.open(t, lab.AccountSpec{})
	for range 7 { // beyond those that the caller's own account may have invented
		b.sim(simwarden.StateActive)
	}
	return b.sim(simwarden.StateActive)
}

func findsByICCID(t *testing.T, s Suite) {
	b := s.open(t, lab.AccountSpec{})
	for range 5 {
		b.sim(simwarden.StateSuspended)
	}
	sim := b.sim(simwarden.StateActive)
	forms := append([]simwarden.ICCID{sim.ICCID}, sim.ICCID.Alternates()...)
	resolver, resolves := b.conn.(carrier.Resolver)
	for _, form := range forms {
		reading, err := b.conn.State(t.Context(), carrier.SIMRef{ICCID: form})
		if err != nil {
			t.Fatalf("read %s, printed as %s: %v", sim.ICCID, form, b.failure(err))
		}
		if reading.State == nil || reading.State.State != simwarden.StateActive || reading.Key != sim.Key {
			t.Errorf("%s (I6) reads as %+v, want SIM %s active", form, reading, sim.Key)
		}
		if !resolves {
			continue
		}
		b.doer.take()
		key, err := resolver.Resolve(t.Context(), form)
		if err != nil || key != sim.Key {
			t.Errorf("%s resolves to %q, %v, want %q", form, key, err, sim.Key)
		}
		for _, op := range b.doer.take() {
			if op != simwarden.OpQueryState {
				t.Errorf("resolving sent a request of operation %s, want query_state", op)
			}
		}
	}
}
