package calendar

import "time"

const day = 24 * time.Hour

// AddDays is n calendar days after t (before it, where n is negative), at the same time of day in
// the zone. AddDays(t, 0, zone) is t.
func AddDays(t time.Time, n int, zone *time.Location) time.Time {
	if n == 0 {
		return t.UTC().Round(0)
	}
	return resolve(wall(t, zone).AddDate(0, 0, n), zone)
}

// AddMonths is n months after t (before it, where n is negative), at the same time of day in the
// zone, on anchorDay or the last day of a month that is shorter. anchorDay is 1 to 31, which is the
// day that a chain of months keeps (31 Jan, 28 Feb, 31 Mar); 0 stands for t's own day in the zone,
// less than that for 1, and more than 31 for 31.
func AddMonths(t time.Time, n, anchorDay int, zone *time.Location) time.Time {
	w := wall(t, zone)
	if anchorDay == 0 {
		anchorDay = w.Day()
	}
	if n == 0 && anchorDay == w.Day() {
		return t.UTC().Round(0)
	}
	return resolve(dayOfMonth(firstOfMonth(w).AddDate(0, n, 0), anchorDay).Add(timeOfDay(w)), zone)
}

// StartOfDay is the first instant of the local day that t is in: midnight, or the jump where clocks
// jump over midnight. Where clocks are set back over midnight the new day has begun with its first
// midnight, whatever they show afterwards (St. John's did so until 2011).
func StartOfDay(t time.Time, zone *time.Location) time.Time {
	start := wall(t, zone).Truncate(day)
	if next := resolve(start.Add(day), zone); !t.Before(next) {
		return next
	}
	return resolve(start, zone)
}

// StartOfMonth is the first instant of the local month that t is in, by the rule of StartOfDay.
func StartOfMonth(t time.Time, zone *time.Location) time.Time {
	first := firstOfMonth(wall(t, zone))
	if next := resolve(first.AddDate(0, 1, 0), zone); !t.Before(next) {
		return next
	}
	return resolve(first, zone)
}

// EndOfMonth is the exclusive end of the local month that t is in: the first instant of the next
// one, always after t.
func EndOfMonth(t time.Time, zone *time.Location) time.Time {
	return endOfMonth(t, 1, zone)
}

// endOfMonth is the exclusive end of the nth local month from t's own, which is the first.
func endOfMonth(t time.Time, n int, zone *time.Location) time.Time {
	// Half a day into the month its clocks show no other month's day.
	first := firstOfMonth(wall(StartOfMonth(t, zone).Add(day/2), zone))
	return resolve(first.AddDate(0, n, 0), zone)
}

// The functions below work on wall times.

func firstOfMonth(w time.Time) time.Time {
	return time.Date(w.Year(), w.Month(), 1, 0, 0, 0, 0, time.UTC)
}

// dayOfMonth is midnight of the month's nth day or of its last, where it is shorter.
func dayOfMonth(first time.Time, n int) time.Time {
	last := first.AddDate(0, 1, -1).Day()
	return first.AddDate(0, 0, max(1, min(n, last))-1)
}

func timeOfDay(w time.Time) time.Duration { return w.Sub(w.Truncate(day)) }
