package carrier

import "time"

// MonthUTC gives the calendar month around the instant, half open, in UTC: the period of the
// carriers that count so.
func MonthUTC(t time.Time) (startAt, endAt time.Time) {
	t = t.UTC()
	startAt = time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
	return startAt, startAt.AddDate(0, 1, 0)
}

// MonthIn gives the calendar month around the instant in a zone, half open, both ends in UTC.
func MonthIn(t time.Time, zone *time.Location) (startAt, endAt time.Time) {
	t = t.In(zone)
	startAt = time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, zone)
	return startAt.UTC(), time.Date(t.Year(), t.Month()+1, 1, 0, 0, 0, 0, zone).UTC()
}
