// Package calendar does all date arithmetic of the product: when a plan ends, when an allowance is
// full again, in which carrier's month a byte belongs (L4, F64-F66, F72).
//
// Every function takes instants of any zone, counts in the zone that it is given, and returns UTC.
// Neither the machine's zone nor its clock has a say. The rules, in one place:
//
//   - A month later is the same day of that month, or its last day where it has no such day; the
//     anchor day is kept: 31 January, 28 February, 31 March.
//   - A day later is the same time of day on the next calendar day, so it may last 23 or 25 hours.
//   - Each local time stands for one instant: the first at which the zone's clocks show it, or show
//     a later time because they jumped over it.
//   - Ends are exclusive: the end of a period is the start of the next.
package calendar

import (
	"fmt"
	"sync"
	"time"
	_ "time/tzdata" // a machine without zone files computes the same instants
)

// zones keeps what LoadZone found: reading a zone's file for each SIM would cost more than the
// arithmetic. Only names of true zones get in, so it is bounded by their number.
var zones sync.Map // string to *time.Location

// LoadZone finds a zone by its IANA name, such as Asia/Shanghai or UTC. The error says what to do.
// "" and "Local" are refused: a result must not depend on the machine's zone (F66).
func LoadZone(name string) (*time.Location, error) {
	if zone, ok := zones.Load(name); ok {
		return zone.(*time.Location), nil
	}
	const advice = "use an IANA name such as Asia/Shanghai, Europe/Berlin or UTC"
	switch {
	case name == "":
		return nil, fmt.Errorf("time zone is missing: %s", advice)
	case name == "Local" || len(name) > 64:
		return nil, fmt.Errorf("time zone %.64q is not one: %s", name, advice)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("time zone %q does not exist: %s", name, advice)
	}
	zones.Store(name, zone)
	return zone, nil
}

// slack is more than any zone is or was away from UTC (16 hours, before 1900).
const slack = 18 * time.Hour

// wall is what the zone's clocks show at t, written as if it were UTC: arithmetic on it meets no
// daylight saving.
func wall(t time.Time, zone *time.Location) time.Time {
	local := t.In(zone)
	_, offset := local.Zone()
	return local.UTC().Round(0).Add(time.Duration(offset) * time.Second)
}

// resolve is the first instant at which the zone's clocks show w or later. Where clocks are set
// back that is the first of two, where they jump ahead it is the jump; and a later w never gives an
// earlier instant. time.Date does not say which of two it takes.
func resolve(w time.Time, zone *time.Location) time.Time {
	t := w.Add(-slack).In(zone) // its clocks show less than w
	for {
		_, offset := t.Zone()
		at := w.Add(-time.Duration(offset) * time.Second)
		if at.Before(t) {
			return t.UTC() // jumped over
		}
		end := offsetEnd(t)
		if end.IsZero() || at.Before(end) {
			return at.UTC()
		}
		t = end
	}
}

// offsetEnd is an instant after t up to which the offset of t surely holds, or the zero time for
// ever. ZoneBounds alone will not do: behind the last change that a zone's file lists (2037) Go takes
// each year to end after 365 days, so that on 31 December of a leap year the end is not after t.
// Go's zones do not change theirs on that day.
func offsetEnd(t time.Time) time.Time {
	_, end := t.ZoneBounds()
	if !end.IsZero() && !end.After(t) {
		return t.Add(day)
	}
	return end
}
