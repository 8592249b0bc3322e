package supersim

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
)

// usageQuery asks for the bytes of each SIM from the month's start until the second now running
// has ended.
//
// Source: the definition's usage records: StartTime inclusive, EndTime exclusive; grouped by SIM
// at most 31 days, which a calendar month never exceeds.
func usageQuery(startAt, now time.Time) url.Values {
	return url.Values{
		"Granularity": {"all"},
		"Group":       {"sim"},
		"StartTime":   {startAt.Format(time.RFC3339)},
		"EndTime":     {now.UTC().Truncate(time.Second).Add(time.Second).Format(time.RFC3339)},
		"PageSize":    {strconv.Itoa(usagePageSize)},
	}
}

// Usage reads the bytes of the running calendar month in UTC of one SIM. Only SIMs that have used
// something have a row: none means 0.
func (c *conn) Usage(ctx context.Context, sim carrier.SIMRef) (simwarden.Reading, error) {
	const op = simwarden.OpQueryUsage
	key := sim.Key
	if key == "" {
		var err error
		if key, err = c.Resolve(ctx, sim.ICCID); err != nil {
			return simwarden.Reading{}, err
		}
	}
	if err := carrier.CheckKey(key); err != nil {
		return simwarden.Reading{}, &carrier.Error{Operation: op, NotSent: true, Err: err}
	}
	now := c.cfg.Now()
	startAt, endAt := carrier.MonthUTC(now)
	query := usageQuery(startAt, now)
	query.Set("Sim", key)
	ans, err := c.read(ctx, op, "/UsageRecords", query)
	if err != nil {
		return simwarden.Reading{}, err
	}
	rows, next, err := decodeUsage(ans.Body)
	switch {
	case err == nil && (len(rows) > 1 || next != ""):
		err = fmt.Errorf("%w: one SIM has more than one row", errMember)
	case err == nil && len(rows) == 1 && rows[0].key != key:
		err = errOtherSIM
	}
	if err != nil {
		return simwarden.Reading{}, carrier.BadAnswer(op, ans.Status, err)
	}
	reading := simwarden.Reading{Key: key, ICCID: sim.ICCID, ReadAt: ans.BegunAt,
		Usage: &simwarden.UsageReading{PeriodStartAt: startAt, PeriodEndAt: endAt}}
	if len(rows) == 1 {
		reading.Usage.CounterBytes = rows[0].bytes
	}
	return reading, nil
}

// ZeroIfAbsent is true: only SIMs that have used something have a row.
func (c *conn) ZeroIfAbsent() bool { return true }

// ListUsage reads one page of the month's usage by SIM. The cursor carries the span that the first
// page asked for, so that all pages of a pass speak of one span, also across a month's end.
func (c *conn) ListUsage(ctx context.Context, cursor string) (carrier.Page, error) {
	const op = simwarden.OpListUsage
	now := c.cfg.Now()
	startAt, _ := carrier.MonthUTC(now)
	query, err := pageQuery(cursor, usageQuery(startAt, now))
	if err != nil {
		return carrier.Page{}, &carrier.Error{Operation: op, NotSent: true, Err: err}
	}
	startAt, err = time.Parse(time.RFC3339, query.Get("StartTime"))
	untilAt, err2 := time.Parse(time.RFC3339, query.Get("EndTime"))
	if err != nil || err2 != nil {
		return carrier.Page{}, &carrier.Error{Operation: op, NotSent: true, Err: errCursor}
	}
	_, endAt := carrier.MonthUTC(startAt)
	ans, err := c.read(ctx, op, "/UsageRecords", query)
	if err != nil {
		return carrier.Page{}, err
	}
	rows, link, err := decodeUsage(ans.Body)
	if err != nil {
		return carrier.Page{}, carrier.BadAnswer(op, ans.Status, err)
	}
	page := carrier.Page{Readings: make([]simwarden.Reading, len(rows))}
	trueAt := time.Time{}
	if untilAt.Before(ans.BegunAt) {
		trueAt = untilAt
	}
	for i, row := range rows {
		page.Readings[i] = simwarden.Reading{Key: row.key, ReadAt: ans.BegunAt,
			Usage: &simwarden.UsageReading{CounterBytes: row.bytes, PeriodStartAt: startAt, PeriodEndAt: endAt, TrueAt: trueAt}}
	}
	if page.Next, err = nextCursor(link, cursor, query); err != nil {
		return carrier.Page{}, carrier.BadAnswer(op, ans.Status, err)
	}
	return page, nil
}

// usageRow is one SIM's usage.
type usageRow struct {
	key   string
	bytes int64
}

var recordNames = []string{"sim_sid", "data_total", "data_upload", "data_download"}

// decodeUsage reads a page of usage records grouped by SIM, and the link to the next page.
func decodeUsage(body []byte) (rows []usageRow, next string, err error) {
	records, next, err := decodePage(body, usageNames)
	if err != nil {
		return nil, "", err
	}
	seen := make(map[string]bool)
	err = records.Elements(func(v carrier.JSON) error {
		row, err := decodeRecord(v)
		switch {
		case err != nil:
			return err
		case seen[row.key]:
			return fmt.Errorf("%w: a SIM has two rows on one page", errMember)
		}
		seen[row.key] = true
		rows = append(rows, row)
		return nil
	})
	if err != nil {
		return nil, "", err
	}
	return rows, next, nil
}

func decodeRecord(v carrier.JSON) (usageRow, error) {
	var member [4]carrier.JSON
	if err := v.Pick(member[:], recordNames); err != nil {
		return usageRow{}, err
	}
	row := usageRow{}
	if !member[0].IsText() {
		return usageRow{}, fmt.Errorf("%w: sim_sid", errMember)
	}
	row.key, _ = member[0].Text()
	if err := carrier.CheckKey(row.key); err != nil {
		return usageRow{}, err
	}
	figures := member[1:2]
	if member[1].Null() {
		figures = member[2:]
		if member[2].Null() && member[3].Null() {
			return usageRow{}, fmt.Errorf("%w: data_total", errMember)
		}
	}
	var err error
	for _, figure := range figures {
		if row.bytes, err = carrier.AddBytes(row.bytes, figure); err != nil {
			return usageRow{}, err
		}
	}
	return row, nil
}
