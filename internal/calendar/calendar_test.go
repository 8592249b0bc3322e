package calendar_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/calendar"
)

// reporter is what *testing.T and *rapid.T have in common.
type reporter interface {
	Helper()
	Fatal(args ...any)
}

// zone loads a zone that a test names.
func zone(t reporter, name string) *time.Location {
	t.Helper()
	z, err := calendar.LoadZone(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// at reads an instant as it stands in a table.
func at(t testing.TB, text string) time.Time {
	t.Helper()
	instant, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return instant
}

// same compares an instant with its RFC 3339 text, and wants it in UTC.
func same(t testing.TB, got time.Time, want string) {
	t.Helper()
	if got.Location() != time.UTC {
		t.Errorf("%v is not in UTC (L4)", got)
	}
	if !got.Equal(at(t, want)) {
		t.Errorf("got %s, want %s", got.Format(time.RFC3339Nano), want)
	}
}

func TestLoadZone(t *testing.T) {
	for _, name := range []string{"Asia/Shanghai", "Asia/Kathmandu", "UTC", "Asia/Shanghai"} {
		if z := zone(t, name); z.String() != name {
			t.Errorf("%s gave %v", name, z)
		}
	}
	for _, name := range []string{"", "Local", "Asia/Beijing", "../etc/passwd", "CST8", strings.Repeat("x", 1000)} {
		z, err := calendar.LoadZone(name)
		if err == nil || !strings.Contains(err.Error(), "use an IANA name such as Asia/Shanghai") || len(err.Error()) > 250 {
			t.Errorf("LoadZone(%.20q) = %v, %v, want an error that says what to do", name, z, err)
		}
	}
}

func TestAddMonths(t *testing.T) {
	for _, row := range []struct {
		sentence, from string
		n, anchorDay   int
		zone, want     string
	}{
		{"F64: 31 January and a month is 28 February", "2026-01-31T00:00:00+08:00", 1, 0, "Asia/Shanghai", "2026-02-28T00:00:00+08:00"},
		{"F64: the anchor day is kept", "2026-02-28T00:00:00+08:00", 1, 31, "Asia/Shanghai", "2026-03-31T00:00:00+08:00"},
		{"F64: two months at once are the same", "2026-01-31T00:00:00+08:00", 2, 0, "Asia/Shanghai", "2026-03-31T00:00:00+08:00"},
		{"F64: in a leap year it is 29 February", "2028-01-31T09:30:00+08:00", 1, 0, "Asia/Shanghai", "2028-02-29T09:30:00+08:00"},
		{"F64: 29 February and a year is 28 February", "2028-02-29T00:00:00+08:00", 12, 0, "Asia/Shanghai", "2029-02-28T00:00:00+08:00"},
		{"F64: 29 February and four years is 29 February", "2028-02-29T00:00:00+08:00", 48, 0, "Asia/Shanghai", "2032-02-29T00:00:00+08:00"},
		{"2100 is no leap year", "2099-12-31T00:00:00Z", 2, 0, "UTC", "2100-02-28T00:00:00Z"},
		{"F72: ten years reach over 2038", "2028-03-15T12:00:00Z", 120, 0, "UTC", "2038-03-15T12:00:00Z"},
		{"F72: the second after which 32 bits end", "2037-12-19T03:14:08Z", 1, 0, "UTC", "2038-01-19T03:14:08Z"},
		{"the day is the zone's, not UTC's", "2026-01-30T16:00:00Z", 1, 0, "Asia/Shanghai", "2026-02-27T16:00:00Z"},
		{"backwards", "2026-03-31T00:00:00Z", -1, 0, "UTC", "2026-02-28T00:00:00Z"},
		{"back over the year", "2026-01-15T00:00:00Z", -13, 0, "UTC", "2024-12-15T00:00:00Z"},
		{"nothing is nothing", "2026-11-01T01:30:00-05:00", 0, 0, "America/New_York", "2026-11-01T01:30:00-05:00"},
		{"within the month to its anchor day", "2026-02-10T00:00:00Z", 0, 31, "UTC", "2026-02-28T00:00:00Z"},
		{"an anchor day beyond 31 is 31", "2026-02-28T00:00:00Z", 1, 99, "UTC", "2026-03-31T00:00:00Z"},
		{"an anchor day below 1 is 1", "2026-02-28T00:00:00Z", 1, -5, "UTC", "2026-03-01T00:00:00Z"},
		{"F65: into a gap, the first instant after it", "2026-02-08T02:30:00-05:00", 1, 0, "America/New_York", "2026-03-08T03:00:00-04:00"},
		{"F65: into an overlap, the first of the two", "2026-10-01T01:30:00-04:00", 1, 0, "America/New_York", "2026-11-01T01:30:00-04:00"},
		{"F65: half an hour of daylight saving", "2026-09-04T02:15:00+10:30", 1, 0, "Australia/Lord_Howe", "2026-10-04T02:30:00+11:00"},
		{"parts of a second are kept", "2026-01-31T00:00:00.123456789Z", 1, 0, "UTC", "2026-02-28T00:00:00.123456789Z"},
	} {
		t.Run(row.sentence, func(t *testing.T) {
			same(t, calendar.AddMonths(at(t, row.from), row.n, row.anchorDay, zone(t, row.zone)), row.want)
		})
	}
}

func TestAddDays(t *testing.T) {
	for _, row := range []struct {
		sentence, from string
		n              int
		zone, want     string
	}{
		{"a day of 24 hours", "2026-01-31T10:00:00+08:00", 1, "Asia/Shanghai", "2026-02-01T10:00:00+08:00"},
		{"F65: a day of 23 hours", "2026-03-28T12:00:00+01:00", 1, "Europe/Berlin", "2026-03-29T12:00:00+02:00"},
		{"F65: a day of 25 hours", "2026-10-24T12:00:00+02:00", 1, "Europe/Berlin", "2026-10-25T12:00:00+01:00"},
		{"F65: into a gap, the first instant after it", "2026-03-28T02:30:00+01:00", 1, "Europe/Berlin", "2026-03-29T03:00:00+02:00"},
		{"F65: into an overlap, the first of the two", "2026-10-24T02:30:00+02:00", 1, "Europe/Berlin", "2026-10-25T02:30:00+02:00"},
		{"nothing is nothing, also in the second of two", "2026-10-25T02:30:00+01:00", 0, "Europe/Berlin", "2026-10-25T02:30:00+01:00"},
		{"over a gap time of day comes back", "2026-03-28T02:30:00+01:00", 2, "Europe/Berlin", "2026-03-30T02:30:00+02:00"},
		{"a day that Samoa left out is the next one's start", "2011-12-29T12:00:00-10:00", 1, "Pacific/Apia", "2011-12-31T00:00:00+14:00"},
		{"F65: 31 December of a leap year after 2037, where Go's zone bounds stand still", "2052-12-30T12:00:00-05:00", 1, "America/New_York", "2052-12-31T12:00:00-05:00"},
		{"F65: and over that day", "2052-12-30T12:00:00-05:00", 2, "America/New_York", "2053-01-01T12:00:00-05:00"},
		{"back", "2026-03-29T12:00:00+02:00", -1, "Europe/Berlin", "2026-03-28T12:00:00+01:00"},
		{"L4: a yearly plan of 360 days", "2026-01-01T00:00:00+08:00", 360, "Asia/Shanghai", "2026-12-27T00:00:00+08:00"},
	} {
		t.Run(row.sentence, func(t *testing.T) {
			same(t, calendar.AddDays(at(t, row.from), row.n, zone(t, row.zone)), row.want)
		})
	}
}

func TestStartsAndEnds(t *testing.T) {
	for _, row := range []struct {
		sentence, at, zone             string
		dayStart, monthStart, monthEnd string
	}{
		{"an instant that is yesterday in UTC", "2026-02-28T16:30:00Z", "Asia/Shanghai",
			"2026-03-01T00:00:00+08:00", "2026-03-01T00:00:00+08:00", "2026-04-01T00:00:00+08:00"},
		{"the last nanosecond of a month", "2026-01-31T23:59:59.999999999+08:00", "Asia/Shanghai",
			"2026-01-31T00:00:00+08:00", "2026-01-01T00:00:00+08:00", "2026-02-01T00:00:00+08:00"},
		{"the first of a year", "2026-01-01T00:00:00+05:45", "Asia/Kathmandu",
			"2026-01-01T00:00:00+05:45", "2026-01-01T00:00:00+05:45", "2026-02-01T00:00:00+05:45"},
		{"F65: midnight was jumped over", "2018-11-04T12:00:00-02:00", "America/Sao_Paulo",
			"2018-11-04T01:00:00-02:00", "2018-11-01T00:00:00-03:00", "2018-12-01T00:00:00-02:00"},
		{"F65: midnight came twice", "2018-02-17T23:30:00-03:00", "America/Sao_Paulo",
			"2018-02-17T00:00:00-02:00", "2018-02-01T00:00:00-02:00", "2018-03-01T00:00:00-03:00"},
		{"F65: a month that began, and whose clocks then showed the old one again", "2009-10-31T23:30:00-03:30", "America/St_Johns",
			"2009-11-01T00:00:00-02:30", "2009-11-01T00:00:00-02:30", "2009-12-01T00:00:00-03:30"},
		{"the same, a minute earlier", "2009-11-01T00:00:30-02:30", "America/St_Johns",
			"2009-11-01T00:00:00-02:30", "2009-11-01T00:00:00-02:30", "2009-12-01T00:00:00-03:30"},
		{"and before all that", "2009-10-31T23:59:59-02:30", "America/St_Johns",
			"2009-10-31T00:00:00-02:30", "2009-10-01T00:00:00-02:30", "2009-11-01T00:00:00-02:30"},
	} {
		t.Run(row.sentence, func(t *testing.T) {
			z, instant := zone(t, row.zone), at(t, row.at)
			same(t, calendar.StartOfDay(instant, z), row.dayStart)
			same(t, calendar.StartOfMonth(instant, z), row.monthStart)
			same(t, calendar.EndOfMonth(instant, z), row.monthEnd)
		})
	}
}

func TestCycles(t *testing.T) {
	shanghai, berlin := zone(t, "Asia/Shanghai"), zone(t, "Europe/Berlin")
	must := func(c calendar.Cycle, err error) calendar.Cycle {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for _, row := range []struct {
		sentence       string
		cycle          calendar.Cycle
		at, start, end string
	}{
		{"L4: China Unicom's month runs from the 27th to the 26th", must(calendar.Monthly(27, shanghai)),
			"2026-02-26T23:59:59+08:00", "2026-01-27T00:00:00+08:00", "2026-02-27T00:00:00+08:00"},
		{"the boundary is in the cycle that it starts", must(calendar.Monthly(27, shanghai)),
			"2026-02-27T00:00:00+08:00", "2026-02-27T00:00:00+08:00", "2026-03-27T00:00:00+08:00"},
		{"before the anchor as well as after it", must(calendar.Monthly(1, shanghai)),
			"1999-12-31T23:00:00+08:00", "1999-12-01T00:00:00+08:00", "2000-01-01T00:00:00+08:00"},
		{"F64: from the 31st, a short month", must(calendar.Monthly(31, shanghai)),
			"2026-02-28T00:00:00+08:00", "2026-02-28T00:00:00+08:00", "2026-03-31T00:00:00+08:00"},
		{"F64: quarters from 30 November", must(calendar.EveryMonths(at(t, "2025-11-30T08:00:00+08:00"), 3, shanghai)),
			"2026-03-01T00:00:00+08:00", "2026-02-28T08:00:00+08:00", "2026-05-30T08:00:00+08:00"},
		{"L4: from 30 to 30 days", must(calendar.EveryDays(at(t, "2026-01-01T00:00:00+08:00"), 30, shanghai)),
			"2026-01-31T00:00:00+08:00", "2026-01-31T00:00:00+08:00", "2026-03-02T00:00:00+08:00"},
		{"L4: a year of 360 days", must(calendar.EveryDays(at(t, "2026-01-01T00:00:00+08:00"), 360, shanghai)),
			"2027-01-01T00:00:00+08:00", "2026-12-27T00:00:00+08:00", "2027-12-22T00:00:00+08:00"},
		{"days before the anchor", must(calendar.EveryDays(at(t, "2026-01-01T00:00:00+08:00"), 30, shanghai)),
			"2025-12-31T23:59:59+08:00", "2025-12-02T00:00:00+08:00", "2026-01-01T00:00:00+08:00"},
		{"F65: the gap moves its own boundary alone", must(calendar.EveryDays(at(t, "2026-03-27T02:30:00+01:00"), 1, berlin)),
			"2026-03-29T12:00:00+02:00", "2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"},
		{"F65: an anchor in the second of two equal hours stays a boundary", must(calendar.EveryDays(at(t, "2026-10-25T02:30:00+01:00"), 1, berlin)),
			"2026-10-25T02:30:00+01:00", "2026-10-25T02:30:00+01:00", "2026-10-26T02:30:00+01:00"},
		{"Samoa's missing day makes no empty turn", must(calendar.EveryDays(at(t, "2011-12-01T00:00:00-10:00"), 1, zone(t, "Pacific/Apia"))),
			"2011-12-31T00:00:00+14:00", "2011-12-31T00:00:00+14:00", "2012-01-01T00:00:00+14:00"},
		{"F72: an instant far beyond any plan takes no longer", must(calendar.EveryDays(at(t, "2026-01-01T00:00:00Z"), 1, zone(t, "UTC"))),
			"9000-05-05T05:00:00Z", "9000-05-05T00:00:00Z", "9000-05-06T00:00:00Z"},
	} {
		t.Run(row.sentence, func(t *testing.T) {
			instant := at(t, row.at)
			period := row.cycle.Containing(instant)
			same(t, period.Start, row.start)
			same(t, period.End, row.end)
			same(t, row.cycle.Next(instant), row.end)
			if !period.Contains(instant) || period.Contains(period.End) || !period.Contains(period.Start) {
				t.Errorf("%v does not contain what it should", period)
			}
		})
	}
}

func TestLengthsThatAreRefused(t *testing.T) {
	utc, start := time.UTC, at(t, "2026-01-01T00:00:00Z")
	for sentence, err := range map[string]error{
		"F72: a cycle of no days":        second(calendar.EveryDays(start, 0, utc)),
		"a cycle of negative days":       second(calendar.EveryDays(start, -30, utc)),
		"a cycle of more than a century": second(calendar.EveryDays(start, calendar.MaxDays+1, utc)),
		"F72: a cycle of no months":      second(calendar.EveryMonths(start, 0, utc)),
		"a month from day 0":             second(calendar.Monthly(0, utc)),
		"a month from day 32":            second(calendar.Monthly(32, utc)),
		"F72: a plan of no days":         second(calendar.ValidityEnd(start, calendar.Validity{Unit: simwarden.ValidityDays}, utc)),
		"F72: a plan of no months":       second(calendar.ValidityEnd(start, calendar.Validity{Unit: simwarden.ValidityMonths}, utc)),
		"F72: a plan of no seconds":      second(calendar.ValidityEnd(start, calendar.Validity{Unit: simwarden.ValiditySeconds}, utc)),
		"a plan to a month end before":   second(calendar.ValidityEnd(start, calendar.Validity{Unit: simwarden.ValidityMonthEnd, N: -1}, utc)),
		"a plan that keeps a 32nd":       second(calendar.ValidityEnd(start, calendar.Validity{Unit: simwarden.ValidityMonths, N: 1, AnchorDay: 32}, utc)),
		"a plan beyond a century":        second(calendar.ValidityEnd(start, calendar.Validity{Unit: simwarden.ValidityMonths, N: 1201}, utc)),
		"F72: a reset every 0 days":      second(calendar.NextReset(start, calendar.Reset{Kind: simwarden.ResetCycle, Anchor: start}, utc)),
	} {
		if !errors.Is(err, calendar.ErrLength) || !strings.Contains(err.Error(), "want 1 to") {
			t.Errorf("%s: %v, want ErrLength", sentence, err)
		}
	}
	for sentence, err := range map[string]error{
		"a plan that never began":    second(calendar.ValidityEnd(time.Time{}, calendar.Validity{Unit: simwarden.ValidityDays, N: 1}, utc)),
		"a cycle without an anchor":  second(calendar.EveryDays(time.Time{}, 1, utc)),
		"months without an anchor":   second(calendar.EveryMonths(time.Time{}, 1, utc)),
		"a reset without an anchor":  second(calendar.NextReset(start, calendar.Reset{Kind: simwarden.ResetCycle, Days: 30}, utc)),
		"a reset after year 10,000":  second(calendar.NextReset(start.AddDate(9000, 0, 0), calendar.Reset{Kind: simwarden.ResetCalendarMonth}, utc)),
		"a plan from the year 2201":  second(calendar.ValidityEnd(start.AddDate(175, 0, 0), calendar.Validity{Unit: simwarden.ValidityDays, N: 1}, utc)),
		"a plan from before Unix is": second(calendar.ValidityEnd(at(t, "1969-12-31T23:59:59Z"), calendar.Validity{Unit: simwarden.ValidityDays, N: 1}, utc)),
	} {
		if !errors.Is(err, calendar.ErrInstant) {
			t.Errorf("%s: %v, want ErrInstant", sentence, err)
		}
	}
	for sentence, err := range map[string]error{
		"weeks":           calendar.Validity{Unit: "weeks", N: 1}.Check(),
		"a weekly reset":  calendar.Reset{Kind: "weekly"}.Check(),
		"no unit at all":  calendar.Validity{N: 1}.Check(),
		"no kind at all":  calendar.Reset{}.Check(),
		"through the end": second(calendar.ValidityEnd(start, calendar.Validity{Unit: "weeks", N: 1}, utc)),
	} {
		if err == nil || !strings.Contains(err.Error(), "does not exist: use") {
			t.Errorf("%s: %v, want an error that names the choices", sentence, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestValidityEnd(t *testing.T) {
	for _, row := range []struct {
		sentence, start string
		validity        calendar.Validity
		zone, want      string
	}{
		{"L4: 30 days", "2026-01-15T10:00:00+08:00", calendar.Validity{Unit: simwarden.ValidityDays, N: 30}, "Asia/Shanghai", "2026-02-14T10:00:00+08:00"},
		{"L4: 31 January and a month", "2026-01-31T10:00:00+08:00", calendar.Validity{Unit: simwarden.ValidityMonths, N: 1}, "Asia/Shanghai", "2026-02-28T10:00:00+08:00"},
		{"F64: the plan queued behind it keeps the 31st", "2026-02-28T10:00:00+08:00", calendar.Validity{Unit: simwarden.ValidityMonths, N: 1, AnchorDay: 31}, "Asia/Shanghai", "2026-03-31T10:00:00+08:00"},
		{"L4: 29 February and a year", "2028-02-29T00:00:00Z", calendar.Validity{Unit: simwarden.ValidityMonths, N: 12}, "UTC", "2029-02-28T00:00:00Z"},
		{"F72: ten years over 2038", "2030-06-01T00:00:00Z", calendar.Validity{Unit: simwarden.ValidityMonths, N: 120}, "UTC", "2040-06-01T00:00:00Z"},
		{"L4: until month end", "2026-02-10T10:00:00+08:00", calendar.Validity{Unit: simwarden.ValidityMonthEnd}, "Asia/Shanghai", "2026-03-01T00:00:00+08:00"},
		{"the month of the start is the first", "2026-02-10T10:00:00+08:00", calendar.Validity{Unit: simwarden.ValidityMonthEnd, N: 1}, "Asia/Shanghai", "2026-03-01T00:00:00+08:00"},
		{"until the end of the month after", "2026-01-31T10:00:00+08:00", calendar.Validity{Unit: simwarden.ValidityMonthEnd, N: 2}, "Asia/Shanghai", "2026-03-01T00:00:00+08:00"},
		{"from a month's first instant until its end", "2026-02-01T00:00:00+08:00", calendar.Validity{Unit: simwarden.ValidityMonthEnd, N: 1}, "Asia/Shanghai", "2026-03-01T00:00:00+08:00"},
		{"seconds, for demonstrations", "2026-02-10T10:00:00Z", calendar.Validity{Unit: simwarden.ValiditySeconds, N: 90}, "UTC", "2026-02-10T10:01:30Z"},
	} {
		t.Run(row.sentence, func(t *testing.T) {
			end, err := calendar.ValidityEnd(at(t, row.start), row.validity, zone(t, row.zone))
			if err != nil {
				t.Fatal(err)
			}
			same(t, end, row.want)
		})
	}
}

func TestNextReset(t *testing.T) {
	anchor := at(t, "2026-01-15T10:00:00+08:00")
	for _, row := range []struct {
		sentence, after string
		reset           calendar.Reset
		want            string
	}{
		{"L5: the calendar month in the plan's zone", "2026-01-31T15:59:59Z", calendar.Reset{Kind: simwarden.ResetCalendarMonth}, "2026-02-01T00:00:00+08:00"},
		{"a reset is not its own next", "2026-02-01T00:00:00+08:00", calendar.Reset{Kind: simwarden.ResetCalendarMonth}, "2026-03-01T00:00:00+08:00"},
		{"L5: 30 days from the start", "2026-01-15T10:00:00+08:00", calendar.Reset{Kind: simwarden.ResetCycle, Anchor: anchor, Days: 30}, "2026-02-14T10:00:00+08:00"},
		{"F69: after a week down, the next to come", "2026-02-20T00:00:00+08:00", calendar.Reset{Kind: simwarden.ResetCycle, Anchor: anchor, Days: 1}, "2026-02-20T10:00:00+08:00"},
	} {
		t.Run(row.sentence, func(t *testing.T) {
			next, err := calendar.NextReset(at(t, row.after), row.reset, zone(t, "Asia/Shanghai"))
			if err != nil {
				t.Fatal(err)
			}
			same(t, next, row.want)
		})
	}
	next, err := calendar.NextReset(anchor, calendar.Reset{Kind: simwarden.ResetNone}, time.UTC)
	if err != nil || !next.IsZero() {
		t.Errorf("no reset gave %v, %v, want the zero time", next, err)
	}
}
