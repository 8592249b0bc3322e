package carrier

import "time"

// MonthUTC gives the calendar month around the instant, half open, in UTC: the period of the
// carriers that count so.
func MonthUTC(t time.Time) (startAt, endAt time.Time) {
	t = t.UTC()
	startAt = time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
	return startAt, startAt.AddDate(0, 1, 0)
}
