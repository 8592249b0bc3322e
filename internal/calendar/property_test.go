package calendar_test

import (
	"archive/zip"
	"go/build"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/calendar"
)

// hardZones are those in which arithmetic goes wrong: half and quarter hours, midnight jumped over
// or shown twice, days left out, daylight saving in winter, and half an hour of it.
var hardZones = []string{
	"UTC", "Asia/Shanghai", "Asia/Tokyo", "Asia/Kolkata", "Asia/Kathmandu", "Asia/Tehran", "Asia/Gaza",
	"Asia/Beirut", "Asia/Amman", "Asia/Pyongyang", "Europe/Berlin", "Europe/London", "Europe/Dublin",
	"Europe/Lisbon", "Africa/Cairo", "Africa/Casablanca", "Africa/Monrovia", "America/New_York",
	"America/St_Johns", "America/Sao_Paulo", "America/Havana", "America/Asuncion", "America/Santiago",
	"America/Caracas", "America/Scoresbysund", "Antarctica/Troll", "Atlantic/Azores", "Australia/Lord_Howe",
	"Australia/Eucla", "Australia/Sydney", "Pacific/Apia", "Pacific/Kwajalein", "Pacific/Chatham",
	"Pacific/Kiritimati", "Pacific/Fakaofo", "Pacific/Marquesas",
}

// allZones are those of the Go installation where it has its list, beside the hard ones (F65).
func allZones(t testing.TB) []string {
	t.Helper()
	names := hardZones
	list, err := zip.OpenReader(filepath.Join(build.Default.GOROOT, "lib", "time", "zoneinfo.zip"))
	if err != nil {
		t.Logf("the list of all zones is not here, %d hard ones are tested: %v", len(names), err)
		return names
	}
	defer func() { _ = list.Close() }()
	for _, file := range list.File {
		if !strings.HasSuffix(file.Name, "/") && file.Name != "Factory" {
			names = append(names, file.Name)
		}
	}
	return names
}

var (
	first = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	last  = time.Date(2040, 12, 31, 0, 0, 0, 0, time.UTC).Unix()
)

func drawZone(t *rapid.T) *time.Location {
	return zone(t, rapid.SampledFrom(hardZones).Draw(t, "zone"))
}

// drawInstant draws over 40 years, often close to a change of the zone's clocks.
func drawInstant(t *rapid.T, z *time.Location, label string) time.Time {
	instant := time.Unix(rapid.Int64Range(first, last).Draw(t, label), 0).UTC()
	if _, end := instant.In(z).ZoneBounds(); !end.IsZero() && end.Unix() < last && rapid.Bool().Draw(t, label+" near a change") {
		instant = end.UTC().Add(time.Duration(rapid.Int64Range(-26*3600, 26*3600).Draw(t, label+" off")) * time.Second)
	}
	return instant
}

func drawCycle(t *rapid.T, z *time.Location) (cycle calendar.Cycle, shortest, longest time.Duration) {
	const day = 24 * time.Hour
	var err error
	switch rapid.IntRange(0, 2).Draw(t, "kind") {
	case 0:
		cycle, err = calendar.Monthly(rapid.IntRange(1, 31).Draw(t, "from day"), z)
		shortest, longest = 28*day, 31*day
	case 1:
		n := rapid.IntRange(1, 24).Draw(t, "months")
		cycle, err = calendar.EveryMonths(drawInstant(t, z, "anchor"), n, z)
		shortest, longest = time.Duration(n)*28*day, time.Duration(n)*31*day
	default:
		n := rapid.SampledFrom([]int{1, 2, 7, 28, 30, 31, 360, 365}).Draw(t, "days")
		cycle, err = calendar.EveryDays(drawInstant(t, z, "anchor"), n, z)
		shortest, longest = time.Duration(n)*day, time.Duration(n)*day
	}
	if err != nil {
		t.Fatal(err)
	}
	// Daylight saving moves an end by two hours at most (Troll); Samoa, Tokelau, Kwajalein and
	// Kiritimati left out a day.
	return cycle, shortest - 26*time.Hour, longest + 26*time.Hour
}

func TestCyclesHaveNoGapAndNoOverlap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		z := drawZone(t)
		cycle, shortest, longest := drawCycle(t, z)
		at := drawInstant(t, z, "at")
		period := cycle.Containing(at)
		if !period.Contains(at) {
			t.Fatalf("L4: %v is not in its own period %v", at, period)
		}
		for turn := range 30 {
			if got := period.End.Sub(period.Start); got <= 0 || got < shortest || got > longest {
				t.Fatalf("turn %d lasts %v, want %v to %v: %v", turn, got, shortest, longest, period)
			}
			if same := cycle.Containing(period.End.Add(-1)); same != period {
				t.Fatalf("the last nanosecond of %v is in %v", period, same)
			}
			if next := cycle.Next(period.Start); !next.Equal(period.End) || !next.After(period.Start) {
				t.Fatalf("after %v comes %v, want %v", period.Start, next, period.End)
			}
			next := cycle.Containing(period.End)
			if !next.Start.Equal(period.End) {
				t.Fatalf("L4: %v is followed by %v", period, next)
			}
			period = next
		}
	})
}

func TestAdditionIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		z := drawZone(t)
		a := drawInstant(t, z, "a")
		b := a.Add(time.Duration(rapid.Int64Range(0, 72*3600).Draw(t, "later")) * time.Second)
		n := rapid.IntRange(1, 500).Draw(t, "n")
		// Two instants that show the same time, or of which the later shows an earlier one, are
		// in an overlap: there the order of the clocks is not that of the instants.
		if a.In(z).Format(time.DateTime) <= b.In(z).Format(time.DateTime) {
			if x, y := calendar.AddDays(a, n, z), calendar.AddDays(b, n, z); y.Before(x) {
				t.Fatalf("%v < %v, but %d days later %v > %v", a, b, n, x, y)
			}
			if x, y := calendar.AddMonths(a, n, 0, z), calendar.AddMonths(b, n, 0, z); y.Before(x) && a.In(z).Month() != b.In(z).Month() {
				t.Fatalf("%v < %v, but %d months later %v > %v", a, b, n, x, y)
			}
		}
		if x, y := calendar.AddDays(a, n, z), calendar.AddDays(a, n+1, z); !x.After(a) || y.Before(x) {
			t.Fatalf("from %v, %d days are %v and one more %v", a, n, x, y)
		}
		if x, y := calendar.AddMonths(a, n, 0, z), calendar.AddMonths(a, n+1, 0, z); !x.After(a) || !y.After(x) {
			t.Fatalf("from %v, %d months are %v and one more %v", a, n, x, y)
		}
	})
}

func TestResultShowsTheTimeThatWasMeant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		z := drawZone(t)
		from, n := drawInstant(t, z, "from"), rapid.IntRange(-500, 500).Filter(func(n int) bool { return n != 0 }).Draw(t, "n")
		got := calendar.AddDays(from, n, z)
		meant := from.In(z).Format(time.DateTime)
		asUTC, err := time.Parse(time.DateTime, meant)
		if err != nil {
			t.Fatal(err)
		}
		want := asUTC.AddDate(0, 0, n).Format(time.DateTime)
		// F65: got is the first instant that shows the time, or a later one after a jump: no
		// earlier instant does. Half an hour is the finest change of clocks in these years.
		if shown := got.In(z).Format(time.DateTime); shown < want {
			t.Fatalf("%v shows %s, meant was %s", got, shown, want)
		}
		for back := time.Second; back < 30*time.Hour; back += 5 * time.Minute {
			if shown := got.Add(-back).In(z).Format(time.DateTime); shown >= want {
				t.Fatalf("%v shows %s, at or after %s, before %v does", got.Add(-back), shown, want, got)
			}
		}
	})
}

func TestDaysAndMonthsOfEveryZone(t *testing.T) {
	for _, name := range allZones(t) {
		z := zone(t, name)
		// Every month of 1970 to 2070, and every change of clocks (F65).
		for m := time.Date(1970, 1, 15, 0, 0, 0, 0, time.UTC); m.Year() < 2071; m = m.AddDate(0, 1, 0) {
			checkStarts(t, z, m)
		}
		change := time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC).In(z)
		for {
			_, end := change.ZoneBounds()
			if end.IsZero() || end.Year() > 2070 {
				break
			}
			if !end.After(change) { // 31 December of a leap year after 2037, see offsetEnd
				end = change.Add(24 * time.Hour)
			}
			for _, off := range []time.Duration{-time.Hour, -1, 0, 30 * time.Minute, time.Hour} {
				checkStarts(t, z, end.Add(off))
			}
			change = end
		}
	}
}

func checkStarts(t *testing.T, z *time.Location, at time.Time) {
	t.Helper()
	day, month, end := calendar.StartOfDay(at, z), calendar.StartOfMonth(at, z), calendar.EndOfMonth(at, z)
	if day.After(at) || month.After(day) || !end.After(at) {
		t.Errorf("%s: %v has day %v, month %v to %v", z, at, day, month, end)
	}
	if length := end.Sub(month); length < 27*24*time.Hour || length > 32*24*time.Hour {
		t.Errorf("%s: the month of %v lasts %v", z, at, length)
	}
	if at.Sub(day) > 25*time.Hour+time.Hour {
		t.Errorf("%s: the day of %v began %v", z, at, day)
	}
	if again := calendar.StartOfMonth(end, z); !again.Equal(end) {
		t.Errorf("%s: the month after %v begins %v and %v", z, at, end, again)
	}
	if before := calendar.StartOfMonth(end.Add(-1), z); !before.Equal(month) {
		t.Errorf("%s: the last nanosecond before %v is in the month from %v, not %v", z, end, before, month)
	}
}

func TestQueuedPlansMeet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		z := drawZone(t)
		start := drawInstant(t, z, "start")
		v := calendar.Validity{
			Unit: rapid.SampledFrom([]simwarden.ValidityUnit{simwarden.ValidityDays, simwarden.ValidityMonths,
				simwarden.ValidityMonthEnd, simwarden.ValiditySeconds}).Draw(t, "unit"),
			N: rapid.IntRange(1, 60).Draw(t, "n"),
		}
		for range 12 {
			end, err := calendar.ValidityEnd(start, v, z)
			if err != nil {
				t.Fatal(err)
			}
			if !end.After(start) {
				t.Fatalf("L4: a plan of %d %s from %v ends %v", v.N, v.Unit, start, end)
			}
			start = end
		}
	})
}

// TestResultsAreIndependentOfTZ runs the tables again in processes with other machine zones (F66).
func TestResultsAreIndependentOfTZ(t *testing.T) {
	if os.Getenv("CALENDAR_TEST_CHILD") != "" {
		return // we are one of those processes
	}
	for _, name := range []string{"UTC", "Asia/Shanghai", "America/St_Johns"} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.count=1",
			"-test.run=^(TestAdd|TestStarts|TestCycles$|TestValidityEnd|TestNextReset)")
		cmd.Env = append(os.Environ(), "TZ="+name, "CALENDAR_TEST_CHILD=1")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS") {
			t.Errorf("F66: with TZ=%s: %v\n%s", name, err, out)
		}
	}
}

func FuzzCycle(f *testing.F) {
	f.Add("Asia/Shanghai", int64(1767225600), int64(1780000000), 30, false)
	f.Add("America/St_Johns", int64(1257042600), int64(1257046200), 1, true)
	f.Fuzz(func(t *testing.T, name string, anchor, at int64, n int, months bool) {
		z, err := calendar.LoadZone(name)
		if err != nil {
			return
		}
		make := calendar.EveryDays
		if months {
			make = calendar.EveryMonths
		}
		cycle, err := make(time.Unix(anchor, 0), n, z)
		if err != nil {
			return
		}
		instant := time.Unix(at%(1<<33), 0)
		if period := cycle.Containing(instant); !period.Contains(instant) {
			t.Errorf("L4: %v is not in %v", instant, period)
		}
	})
}
