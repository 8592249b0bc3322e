package lab_test

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/lab"
)

const month = "?from=1772323200&to=1773100800&period=month" // within March 2026, Unix seconds

// usage adds up what GET /stats/air/sims says.
func (r *rig) usage(iccid string) int64 {
	r.t.Helper()
	var rows []struct {
		DataTrafficStatsMap map[string]struct{ UploadByteSizeTotal, DownloadByteSizeTotal int64 }
	}
	r.must(http.MethodGet, "/stats/air/sims/"+iccid+month, "", http.StatusOK).into(&rows)
	var sum int64
	for _, row := range rows {
		for _, class := range row.DataTrafficStatsMap {
			sum += class.UploadByteSizeTotal + class.DownloadByteSizeTotal
		}
	}
	return sum
}

func (r *rig) status(iccid string) string {
	r.t.Helper()
	return r.must(http.MethodGet, "/sims/"+iccid, "", http.StatusOK).text("status")
}

func TestStaleReadIsThePast(t *testing.T) {
	r := newRig(t, lab.AccountSpec{Dialect: "soracom"})
	iccid := r.add(lab.NewSIM{})
	r.clock.Advance(time.Hour)
	r.must(http.MethodPost, "/sims/"+iccid+"/suspend", "", http.StatusOK)
	if err := r.account.SetUsage(iccid, 5000); err != nil {
		t.Fatal(err)
	}
	r.fault(lab.Fault{Name: lab.StaleRead, Seconds: 60})
	r.clock.Advance(59 * time.Second)
	if status, usage := r.status(iccid), r.usage(iccid); status != "active" || usage != 0 {
		t.Errorf("F31: a minute stale it reads %s, %d bytes, want active, 0", status, usage)
	}
	line := r.line(func(l lab.LogLine) bool { return l.Operation == simwarden.OpQueryState })
	if line.StateAnswered != simwarden.StateActive || line.StateAfter != simwarden.StateSuspended || line.RawAnswered != "active" {
		t.Errorf("the line tells the answer from the truth: %+v", line)
	}
	r.clock.Advance(time.Second)
	if status, usage := r.status(iccid), r.usage(iccid); status != "suspended" || usage != 5000 {
		t.Errorf("F31: when the minute is over it reads %s, %d bytes", status, usage)
	}
}

func TestWhatIsReadIsDistorted(t *testing.T) {
	r := newRig(t, lab.AccountSpec{Dialect: "soracom"})
	iccid, other := r.add(lab.NewSIM{}), r.add(lab.NewSIM{})
	for _, id := range []string{iccid, other} {
		if err := r.account.SetUsage(id, 3_000_000); err != nil {
			t.Fatal(err)
		}
	}
	r.fault(lab.Fault{Name: lab.MassState, State: simwarden.StateTerminated})
	if a, b := r.status(iccid), r.status(other); a != "terminated" || b != "terminated" {
		t.Errorf("F30: under mass_state the sims read %s and %s", a, b)
	}
	r.world.ClearFaults()
	r.fault(lab.Fault{Name: lab.Flap})
	if a, b, c := r.status(iccid), r.status(iccid), r.status(iccid); a != "active" || b != "suspended" || c != "active" {
		t.Errorf("F30: a flapping sim reads %s, %s, %s", a, b, c)
	}
	r.world.ClearFaults()
	r.fault(lab.Fault{Name: lab.UnitChange, ICCIDs: []string{iccid}})
	if a, b := r.usage(iccid), r.usage(other); a != 1024*3_000_000 || b != 3_000_000 {
		t.Errorf("F29: with another unit the usage reads %d, and %d for a sim that the fault does not name", a, b)
	}
	r.world.ClearFaults()
	r.fault(lab.Fault{Name: lab.UsageDown, Factor: 0.25})
	if a := r.usage(iccid); a != 750_000 {
		t.Errorf("F28: usage that goes down reads %d", a)
	}
	r.world.ClearFaults()
	if truth := r.truth(iccid); truth.State != simwarden.StateActive || truth.UsageBytes != 3_000_000 || truth.Executions != 0 {
		t.Errorf("lies about reads changed the truth: %+v", truth)
	}
}

// walk follows the pages to the end, at most so many, and gives the ids in order.
func (r *rig) walk(limit, pages int) (ids []string, ended bool) {
	r.t.Helper()
	key := ""
	for range pages {
		a := r.must(http.MethodGet, fmt.Sprintf("/sims?limit=%d&last_evaluated_key=%s", limit, url.QueryEscape(key)), "", http.StatusOK)
		var sims []struct{ SimID string }
		a.into(&sims)
		for _, sim := range sims {
			ids = append(ids, sim.SimID)
		}
		if key = a.header.Get("X-Soracom-Next-Key"); key == "" {
			return ids, true
		}
	}
	return ids, false
}

func distinct(ids []string) int {
	set := map[string]bool{}
	for _, id := range ids {
		set[id] = true
	}
	return len(set)
}

func TestListsAreWrong(t *testing.T) {
	r := newRig(t, lab.AccountSpec{Dialect: "soracom"})
	iccids, err := r.account.Populate(lab.Population{Count: 95, ActiveShare: 1})
	if err != nil {
		t.Fatal(err)
	}
	if ids, ended := r.walk(10, 20); len(ids) != 95 || distinct(ids) != 95 || !ended {
		t.Fatalf("without a fault the list has %d rows, %d sims", len(ids), distinct(ids))
	}
	for _, test := range []struct {
		name       string
		fault      lab.Fault
		rows, sims int
		ended      bool
	}{
		{"F32: two named sims are missing", lab.Fault{Name: lab.ListMissing, ICCIDs: iccids[3:5]}, 93, 93, true},
		{"F32: a page comes again in place of the next", lab.Fault{Name: lab.ListRepeat, Count: 2}, 95, 85, true},
		{"F32: the cursor stays where it is", lab.Fault{Name: lab.ListRepeat, Variant: "cursor"}, 200, 10, false},
		{"F32: the list is cut short", lab.Fault{Name: lab.ListShort}, 3, 3, true},
		{"F32: the list is empty", lab.Fault{Name: lab.ListEmpty}, 0, 0, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			r.world.ClearFaults()
			r.fault(test.fault)
			ids, ended := r.walk(10, 20)
			if len(ids) != test.rows || distinct(ids) != test.sims || ended != test.ended {
				t.Errorf("%d rows of %d sims, ended: %v; want %d of %d, %v", len(ids), distinct(ids), ended, test.rows, test.sims, test.ended)
			}
		})
	}
	r.world.ClearFaults()
	r.fault(lab.Fault{Name: lab.ListMissing})
	first, _ := r.walk(10, 20)
	if n := len(first); n == 95 || n < 70 {
		t.Errorf("F32: with about every tenth sim missing the list has %d of 95", n)
	}
	if again, _ := r.walk(50, 20); fmt.Sprint(again) != fmt.Sprint(first) {
		t.Error("F32: other sims are missing at the second pass")
	}
}

func TestShortPagesReachEverySIM(t *testing.T) {
	r := newRig(t, lab.AccountSpec{Dialect: "soracom", ShortPages: true})
	if _, err := r.account.Populate(lab.Population{Count: 300, ActiveShare: 0.5}); err != nil {
		t.Fatal(err)
	}
	ids, ended := r.walk(20, 100)
	if !ended || len(ids) != 300 || distinct(ids) != 300 {
		t.Errorf("short pages gave %d rows of %d sims, ended: %v", len(ids), distinct(ids), ended)
	}
	if pages := len(r.world.LogLines()) - 1; pages <= 15 {
		t.Errorf("%d pages: none was short", pages)
	}
}

func TestFaultsKeepToTheirFilter(t *testing.T) {
	r := newRig(t, lab.AccountSpec{Dialect: "soracom"})
	iccid, other := r.add(lab.NewSIM{}), r.add(lab.NewSIM{})
	r.fault(lab.Fault{Name: lab.Fail5xx, Account: "second"})
	r.fault(lab.Fault{Name: lab.Fail5xx, Operations: []simwarden.Operation{simwarden.OpResume}})
	r.fault(lab.Fault{Name: lab.Fail5xx, ICCIDs: []string{other}, Count: 2})
	r.must(http.MethodGet, "/sims/"+iccid, "", http.StatusOK)
	r.must(http.MethodPost, "/sims/"+iccid+"/suspend", "", http.StatusOK)
	r.must(http.MethodPost, "/sims/"+iccid+"/activate", "", http.StatusInternalServerError)
	r.must(http.MethodGet, "/sims/"+other, "", http.StatusInternalServerError)
	r.must(http.MethodGet, "/sims/"+other, "", http.StatusInternalServerError)
	r.must(http.MethodGet, "/sims/"+other, "", http.StatusOK)
	r.must(http.MethodGet, "/sims", "", http.StatusOK)
}

func TestProbabilityHangsOnTheSeed(t *testing.T) {
	struck := func(seed uint64) string {
		w := lab.New(lab.Config{Seed: seed})
		a, err := w.AddAccount(lab.AccountSpec{Name: "first", Dialect: "supersim"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.SetFault(lab.Fault{Name: lab.Fail5xx, Probability: 0.3}); err != nil {
			t.Fatal(err)
		}
		pattern := ""
		for range 200 {
			pattern += fmt.Sprint(get(w, a.Path()+"/v1/Sims")/100, " ")
		}
		if n := w.FaultsInjected()[lab.Fail5xx]; n < 40 || n > 80 {
			t.Errorf("0.3 of 200 struck %d times", n)
		}
		return pattern
	}
	if first, again := struck(1), struck(1); first != again {
		t.Error("the same seed chose otherwise")
	}
	if struck(1) == struck(2) {
		t.Error("another seed chose the same")
	}
}
