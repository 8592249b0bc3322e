package lab_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/clock"
	"github.com/simwarden/simwarden/lab"
)

func TestPopulationIsInventedAndSeeded(t *testing.T) {
	invent := func(seed uint64) []lab.SIMTruth {
		w := lab.New(lab.Config{Clock: clock.NewManual(start), Seed: seed})
		for _, dialect := range []string{"soracom", "supersim"} {
			a, err := w.AddAccount(lab.AccountSpec{Name: dialect, Dialect: dialect})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := a.Populate(lab.Population{Count: 1000, ActiveShare: 0.8, InventoryShare: 0.1, Age: 240 * time.Hour}); err != nil {
				t.Fatal(err)
			}
		}
		return w.Truth()
	}
	sims := invent(1)
	states := map[simwarden.State]int{}
	seen := map[string]bool{}
	for _, sim := range sims {
		states[sim.State]++
		iccid, err := simwarden.ParseICCID(sim.ICCID)
		if err != nil || len(iccid.Alternates()) == 0 {
			t.Fatalf("I6: %v, check digit fits: %v", err, len(iccid.Alternates()) > 0)
		}
		if _, err := simwarden.ParseIMSI(sim.IMSI); err != nil {
			t.Fatal(err)
		}
		if _, err := simwarden.ParseMSISDN(sim.MSISDN); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{sim.ICCID, sim.IMSI, sim.MSISDN, "key " + sim.Key} {
			if seen[id] {
				t.Fatalf("%s comes twice", id)
			}
			seen[id] = true
		}
	}
	if a, s, i := states[simwarden.StateActive], states[simwarden.StateSuspended], states[simwarden.StateInventory]; a < 1500 || a > 1700 ||
		s < 140 || s > 260 || i < 140 || i > 260 {
		t.Errorf("of 2000: %v", states)
	}
	text := func(sims []lab.SIMTruth) string {
		out, err := json.Marshal(sims)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	if text(sims) != text(invent(1)) {
		t.Error("the same seed gave another population")
	}
	if text(sims) == text(invent(2)) {
		t.Error("another seed gave the same population")
	}
}

func TestAccountsThatCannotBe(t *testing.T) {
	w := lab.New(lab.Config{})
	if _, err := w.AddAccount(lab.AccountSpec{Name: "one", Dialect: "soracom"}); err != nil {
		t.Fatal(err)
	}
	for _, spec := range []lab.AccountSpec{
		{Name: "one", Dialect: "soracom"},
		{Name: "lab", Dialect: "soracom"},
		{Name: "A/B", Dialect: "soracom"},
		{Name: "two", Dialect: "esperanto"},
		{Name: "two", Dialect: "soracom", Credentials: map[string]string{"auth_key": "alone"}},
		{Name: "two", Dialect: "supersim", Credentials: map[string]string{"api_key_sid": "SK1"}},
	} {
		if _, err := w.AddAccount(spec); err == nil {
			t.Errorf("%+v was opened", spec)
		}
	}
}

func TestPortalChangesAreDrift(t *testing.T) {
	r := newRig(t, lab.AccountSpec{Dialect: "soracom"})
	iccid := r.add(lab.NewSIM{})
	for state, raw := range map[simwarden.State]string{simwarden.StateSuspended: "suspended", "standby": "standby", simwarden.StateInventory: "ready"} {
		if err := r.account.SetState(iccid, state); err != nil {
			t.Fatal(err)
		}
		if status := r.status(iccid); status != raw {
			t.Errorf("E13: set to %s at the portal, it reads %s", state, status)
		}
	}
	if truth := r.truth(iccid); truth.Executions != 0 || len(truth.Changes) != 4 || truth.Changes[3].By != "portal" {
		t.Errorf("the truth is %+v", truth)
	}
	if err := r.account.SetState(iccid, "asleep"); !errors.Is(err, lab.ErrState) {
		t.Error(err)
	}
	if err := r.account.SetState("8999", "active"); !errors.Is(err, lab.ErrNoSIM) {
		t.Error(err)
	}
}

func TestLogIsComplete(t *testing.T) {
	r := newRig(t, lab.AccountSpec{Dialect: "soracom"})
	iccid := r.add(lab.NewSIM{})
	r.must(http.MethodGet, "/sims/"+iccid, "", 200)
	r.clock.Advance(1234567 * time.Nanosecond)
	r.header.Set("X-Request-Id", "a-1")
	r.must(http.MethodPost, "/sims/"+iccid+"/suspend", "", 200)
	r.must(http.MethodGet, "/sims", "", 200)
	r.must(http.MethodGet, "/sims/"+iccid+month, "", 200)
	r.must(http.MethodGet, "/coupons", "", 404)
	r.must(http.MethodGet, "/sims/8999", "", 404)

	texts := strings.Split(strings.TrimSpace(r.log.String()), "\n")
	lines := r.world.LogLines()
	if len(texts) != 7 || len(lines) != 7 || r.world.Requests() != 7 {
		t.Fatalf("%d lines written, %d kept, %d requests; want 7: a login and six", len(texts), len(lines), r.world.Requests())
	}
	for i, text := range texts {
		var line lab.LogLine
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatal(err)
		}
		if line != lines[i] {
			t.Errorf("written %+v\nkept    %+v", line, lines[i])
		}
		if line.Seq != uint64(i+1) || line.Conn == 0 || line.ArrivedAt.IsZero() || line.AnsweredAt.IsZero() || line.Account != "first" {
			t.Errorf("incomplete: %s", text)
		}
	}
	if !strings.HasPrefix(texts[2], `{"arrived_at":"2026-03-10T12:00:00.001234567Z","seq":3,`) {
		t.Errorf("the third line is %s", texts[2])
	}
	change := lines[2]
	if change.Kind != lab.KindChange || change.RequestID != "a-1" || change.StateBefore != "active" || change.StateAfter != "suspended" ||
		change.StateAnswered != "suspended" || !change.Executed || change.ExecutedAt != start.Add(1234567) || change.Direction != "suspend" {
		t.Errorf("the change's line is %+v", change)
	}
	for i, kind := range []lab.Kind{lab.KindToken, lab.KindRead, lab.KindChange, lab.KindList, lab.KindRead, lab.KindOther, lab.KindRead} {
		if lines[i].Kind != kind {
			t.Errorf("line %d is a %s, want %s", i+1, lines[i].Kind, kind)
		}
	}
	for _, secret := range []string{r.account.Credential("auth_key"), r.header.Get("X-Soracom-Token"), r.header.Get("X-Soracom-API-Key")} {
		if secret == "" || strings.Contains(r.log.String(), secret) {
			t.Error("V20: a credential is in the log, or was not there to look for")
		}
	}
}

func TestLogKeepsTheLastLines(t *testing.T) {
	w := lab.New(lab.Config{Clock: clock.NewManual(start), KeepLines: 5})
	if _, err := w.AddAccount(lab.AccountSpec{Name: "one", Dialect: "supersim"}); err != nil {
		t.Fatal(err)
	}
	for range 12 {
		get(w, "/one/v1/Sims")
	}
	lines := w.LogLines()
	if len(lines) != 5 || lines[0].Seq != 8 || lines[4].Seq != 12 {
		t.Errorf("kept: %d lines", len(lines))
	}
}

type fullDisk struct{ bytes.Buffer }

func (d *fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestLogTellsOfItsFailure(t *testing.T) {
	w := lab.New(lab.Config{Log: &fullDisk{}})
	if _, err := w.AddAccount(lab.AccountSpec{Name: "one", Dialect: "supersim"}); err != nil {
		t.Fatal(err)
	}
	if err := w.LogError(); err != nil {
		t.Fatal(err)
	}
	get(w, "/one/v1/Sims")
	if err := w.LogError(); err == nil || len(w.LogLines()) != 1 {
		t.Errorf("LogError: %v, %d lines kept", err, len(w.LogLines()))
	}
}
