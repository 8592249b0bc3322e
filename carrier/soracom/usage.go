package soracom

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
)

// Usage reads the bytes of the running calendar month in UTC, all speed classes together. A SIM
// without a row has used nothing. A terminated SIM has no statistics any more: 404.
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
	now := c.cfg.Now().UTC()
	startAt, endAt := carrier.MonthUTC(now)
	ans, err := c.read(ctx, op, "/stats/air/sims/"+key, url.Values{
		"from":   {strconv.FormatInt(startAt.Unix(), 10)},
		"to":     {strconv.FormatInt(now.Unix(), 10)},
		"period": {"month"},
	})
	if err != nil {
		return simwarden.Reading{}, err
	}
	used, err := decodeUsage(ans.Body, startAt, endAt)
	if err != nil {
		return simwarden.Reading{}, carrier.BadAnswer(op, ans.Status, err)
	}
	return simwarden.Reading{
		Key:    key,
		ICCID:  sim.ICCID,
		ReadAt: ans.BegunAt,
		Usage:  &simwarden.UsageReading{CounterBytes: used, PeriodStartAt: startAt, PeriodEndAt: endAt},
	}, nil
}

var (
	rowNames     = []string{"unixtime", "dataTrafficStatsMap"}
	trafficNames = []string{"uploadByteSizeTotal", "downloadByteSizeTotal"}

	errRow        = errors.New("a row of the statistics has no time or no traffic")
	errSpeedClass = errors.New("a speed class is there twice")
)

// decodeUsage sums upload and download of the rows within the period.
func decodeUsage(body []byte, startAt, endAt time.Time) (int64, error) {
	doc, err := carrier.ParseJSON(body)
	if err != nil {
		return 0, err
	}
	var sum int64
	seen := false
	err = doc.Elements(func(row carrier.JSON) error {
		var member [2]carrier.JSON
		if err := row.Pick(member[:], rowNames); err != nil {
			return err
		}
		begins, ok := member[0].Int64()
		if !ok || !member[1].IsObject() {
			return errRow
		}
		if at := instant(begins); at.Before(startAt) || !at.Before(endAt) {
			return nil
		}
		if seen {
			return fmt.Errorf("%w: the month has two rows", errRow)
		}
		seen = true
		sum, err = sumTraffic(member[1])
		return err
	})
	return sum, err
}

func sumTraffic(byClass carrier.JSON) (sum int64, err error) {
	var classes []string
	err = byClass.Members(func(name, traffic carrier.JSON) error {
		class := name.Name()
		if slices.Contains(classes, class) {
			return errSpeedClass
		}
		classes = append(classes, class)
		var member [2]carrier.JSON
		if err := traffic.Pick(member[:], trafficNames); err != nil {
			return err
		}
		if member[0].Null() && member[1].Null() {
			return errRow
		}
		for _, figure := range member {
			if sum, err = carrier.AddBytes(sum, figure); err != nil {
				return err
			}
		}
		return nil
	})
	return sum, err
}

// instant reads a UNIX time. This API has seconds in statistics and milliseconds in SIMs; a
// number beyond the year 5138 in seconds is taken for milliseconds.
func instant(n int64) time.Time {
	if n >= 100_000_000_000 {
		return time.UnixMilli(n).UTC()
	}
	return time.Unix(n, 0).UTC()
}
