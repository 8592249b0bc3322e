package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/check"
)

// demoReport is what a demo did, as counted from the database and, for what is to be kept at the
// carriers, from their own log.
type demoReport struct {
	SIMs                  int               `json:"sims"`
	Polls                 int64             `json:"polls"`
	Lapsed                int64             `json:"lapsed"`
	Exhausted             int64             `json:"exhausted"`
	SuspendDone           int64             `json:"suspend_done"`
	ResumeDone            int64             `json:"resume_done"`
	CommandsFailed        int64             `json:"commands_failed"`
	CommandsOpen          int64             `json:"commands_open"`
	CommandsOpenOverBound int               `json:"commands_open_over_bound"`
	FaultsInjected        map[string]int    `json:"faults_injected"`
	LimitViolations       int               `json:"limit_violations"`
	BlindResends          int               `json:"blind_resends"`
	Drift                 int               `json:"drift"`
	DriftSIMs             []check.Violation `json:"drift_sims"`
	Violations            []check.Violation `json:"violations"`
	LookedAt              check.Looked      `json:"looked_at"`
	OpenBoundSeconds      float64           `json:"open_bound_seconds"`
	SettleSeconds         float64           `json:"settle_seconds"`
}

// demoOpenBound is how old an open command may be that nothing named holds: a time-out, the
// settling, a read and two retries.
const demoOpenBound = 25 * time.Second

// maxListed bounds what a report lists one by one.
const maxListed = 20

func (s *demoScene) report(ctx context.Context, e *env) (demoReport, error) {
	counts, err := countDemo(ctx, e)
	if err != nil {
		return demoReport{}, err
	}
	in, err := s.checkInput(e.Store.Now())
	if err != nil {
		return demoReport{}, err
	}
	in.URL = e.URL
	found, err := check.Run(ctx, in)
	if err != nil {
		return demoReport{}, err
	}
	return demoReport{
		SIMs: len(s.sims), Polls: counts.polls, Lapsed: counts.Lapsed, Exhausted: counts.Exhausted, SuspendDone: counts.SuspendDone, ResumeDone: counts.ResumeDone,
		CommandsFailed: counts.Failed, CommandsOpen: counts.Open, CommandsOpenOverBound: found.OpenOverBound,
		FaultsInjected: s.world.FaultsInjected(), LimitViolations: s.world.LimitViolations(), BlindResends: found.BlindResends,
		Drift: len(found.Drift), DriftSIMs: found.Drift[:min(len(found.Drift), maxListed)],
		Violations: found.Violations[:min(len(found.Violations), maxListed)], LookedAt: found.Looked,
		OpenBoundSeconds: demoOpenBound.Seconds(), SettleSeconds: demoSettle.Seconds(),
	}, nil
}

// checkInput hands the lab's log and truth to the checker in its own words.
func (s *demoScene) checkInput(now time.Time) (check.Input, error) {
	in := check.Input{Truth: map[string]simwarden.State{}, Now: now, Settle: demoSettle, OpenBound: demoOpenBound,
		MaxAttempts: demoBackoff().MaxAttempts}
	in.History, in.UsedBytes = map[string][]check.Moment{}, s.usedBytes()
	for _, sim := range s.world.Truth() {
		in.Truth[sim.ICCID] = sim.State
		for _, c := range sim.Changes {
			in.History[sim.ICCID] = append(in.History[sim.ICCID], check.Moment{At: c.At, State: c.State})
		}
	}
	lines := s.world.LogLines()
	in.CountsWritten = len(lines) < demoLines // the node has ended; of a log cut short nothing can be counted
	for _, line := range lines {
		b, err := json.Marshal(line)
		if err != nil {
			return in, err
		}
		var l check.Line
		if err := json.Unmarshal(b, &l); err != nil {
			return in, err
		}
		in.Lines = append(in.Lines, l)
	}
	return in, nil
}

// usedBytes finds a SIM's usage at whichever carrier has it.
func (s *demoScene) usedBytes() func(string, time.Time) (int64, bool) {
	return func(iccid string, at time.Time) (int64, bool) {
		for _, a := range s.world.Accounts() {
			if n, ok := a.UsedBytes(iccid, at); ok {
				return n, true
			}
		}
		return 0, false
	}
}

// line is the live summary.
func (s *demoScene) line(ctx context.Context, e *env, since time.Duration) (string, error) {
	c, err := countDemo(ctx, e)
	if err != nil {
		return "", err
	}
	requests := int64(s.world.Requests())
	elapsed := time.Since(s.lastAt).Seconds()
	rate := float64(requests-s.last.polls) / max(elapsed, 0.001)
	s.last, s.lastAt = c, time.Now()
	s.last.polls = requests
	faults := 0
	for _, n := range s.world.FaultsInjected() {
		faults += n
	}
	return fmt.Sprintf("%5s %4.0f req/s | running %d, suspended %d | plans ended %d, used up %d | suspends %d, resumes %d, failed %d, open %d | faults %d, over limit %d",
		since.Round(time.Second), rate, c.Active, c.Suspended, c.Lapsed, c.Exhausted, c.SuspendDone, c.ResumeDone, c.Failed, c.Open, faults, s.world.LimitViolations()), nil
}

type demoCounts struct {
	Active, Suspended, Lapsed, Exhausted, SuspendDone, ResumeDone, Failed, Open int64
	polls                                                                       int64
}

func countDemo(ctx context.Context, e *env) (demoCounts, error) {
	t, err := e.Store.Totals(ctx)
	if err != nil {
		return demoCounts{}, err
	}
	return demoCounts{
		Active: t.States[simwarden.StateActive], Suspended: t.States[simwarden.StateSuspended], Lapsed: t.Lapsed, Exhausted: t.Exhausted,
		SuspendDone: t.SuspendsDone, ResumeDone: t.ResumesDone, Failed: t.CommandsFailed, Open: t.CommandsOpen, polls: t.PollCalls,
	}, nil
}
