package onelink

import (
	"context"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
)

// Usage reads query/sim-data-usage: the running calendar month of UTC+8. For SIMs of the PB platform
// the figure is true of last midnight; so is it taken for those whose platform is not known, which
// reading the state tells.
func (c *conn) Usage(ctx context.Context, sim carrier.SIMRef) (simwarden.Reading, error) {
	const op = simwarden.OpQueryUsage
	result, ans, iccid, err := c.ask(ctx, op, "query/sim-data-usage", sim)
	if err != nil {
		return simwarden.Reading{}, err
	}
	used, err := decodeUsage(result)
	if err != nil {
		return simwarden.Reading{}, carrier.BadAnswer(op, ans.Status, err)
	}
	startAt, endAt := carrier.MonthIn(ans.BegunAt, zone)
	usage := &simwarden.UsageReading{CounterBytes: used, PeriodStartAt: startAt, PeriodEndAt: endAt}
	if c.platforms.find(iccid) != platformCT {
		usage.TrueAt = midnight(ans.BegunAt)
	}
	return simwarden.Reading{Key: iccid, ICCID: parse(iccid), ReadAt: ans.BegunAt, Usage: usage}, nil
}

// UsageBatchSize is the most SIMs that UsageOf takes.
func (c *conn) UsageBatchSize() int { return batchSize }

// UsageOf reads query/sim-data-usage-monthly/batch, which counts up to yesterday: on a month's first
// day it has nothing yet. It goes by MSISDN, which every SIM must have.
func (c *conn) UsageOf(ctx context.Context, sims []carrier.SIMRef) ([]simwarden.Reading, error) {
	const op = simwarden.OpListUsage
	numbers, err := msisdns(op, sims)
	if err != nil {
		return nil, err
	}
	startAt, endAt := carrier.MonthIn(c.cfg.Now(), zone)
	result, ans, err := c.read(ctx, op, "query/sim-data-usage-monthly/batch", []param{{"msisdns", names(numbers)}, {"queryDate", startAt.In(zone).Format("200601")}})
	if err != nil {
		return nil, err
	}
	rows, err := decodeUsageRows(result)
	if err != nil {
		return nil, carrier.BadAnswer(op, ans.Status, err)
	}
	trueAt := rows.trueAt
	if last := midnight(ans.BegunAt); trueAt.IsZero() || trueAt.After(last) {
		trueAt = last
	}
	var readings []simwarden.Reading
	for i, number := range numbers {
		used, there := rows.bytes[number]
		if !there || !trueAt.After(startAt) {
			continue // nothing has been counted yet, which is not nothing used
		}
		readings = append(readings, simwarden.Reading{Key: keyOf(sims[i]), ICCID: sims[i].ICCID, ReadAt: ans.BegunAt,
			Usage: &simwarden.UsageReading{CounterBytes: used, PeriodStartAt: startAt, PeriodEndAt: endAt, TrueAt: trueAt}})
	}
	return readings, nil
}

// usageRows are the figures of a batch by MSISDN, and up to when they count; zero where it is not said.
type usageRows struct {
	bytes  map[string]int64
	trueAt time.Time
}

// BatchSize is the most SIMs that SIMs takes.
func (c *conn) BatchSize() int { return batchSize }

// SIMs reads query/sim-card-info/batch: which of the SIMs there are, without their states, which this
// carrier does not tell in batches.
func (c *conn) SIMs(ctx context.Context, sims []carrier.SIMRef) ([]simwarden.Reading, error) {
	const op = simwarden.OpQueryState
	if len(sims) == 0 || len(sims) > batchSize {
		return nil, &carrier.Error{Operation: op, NotSent: true, Err: errBatch}
	}
	iccids := make([]string, len(sims))
	for i, sim := range sims {
		if iccids[i] = keyOf(sim); carrier.CheckKey(iccids[i]) != nil {
			return nil, &carrier.Error{Operation: op, NotSent: true, Err: carrier.ErrKey}
		}
	}
	result, ans, err := c.read(ctx, op, "query/sim-card-info/batch", []param{{"iccids", names(iccids)}})
	if err != nil {
		return nil, err
	}
	found, err := decodeCards(result)
	if err != nil {
		return nil, carrier.BadAnswer(op, ans.Status, err)
	}
	readings := make([]simwarden.Reading, len(found))
	for i, iccid := range found {
		readings[i] = simwarden.Reading{Key: iccid, ICCID: parse(iccid), ReadAt: ans.BegunAt}
	}
	return readings, nil
}

func keyOf(sim carrier.SIMRef) string {
	if sim.Key != "" {
		return sim.Key
	}
	return sim.ICCID.String()
}

// msisdns gives the numbers of a batch; nothing is sent where one is missing.
func msisdns(op simwarden.Operation, sims []carrier.SIMRef) ([]string, error) {
	if len(sims) == 0 || len(sims) > batchSize {
		return nil, &carrier.Error{Operation: op, NotSent: true, Err: errBatch}
	}
	numbers := make([]string, len(sims))
	for i, sim := range sims {
		if numbers[i] = bare(sim.MSISDN.String()); numbers[i] == "" {
			return nil, &carrier.Error{Operation: op, NotSent: true, Err: errNoMSISDN}
		}
	}
	return numbers, nil
}
