package acceptance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/app"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/lab"
)

// fleet adds many SIMs at once, all due for their first checks.
func (w *world) fleet(n int) []card {
	w.t.Helper()
	out := make([]card, n)
	sims := make([]store.NewSIM, n)
	for i := range n {
		truth, err := w.carrier.AddSIM(lab.NewSIM{State: simwarden.StateActive, Age: time.Hour})
		w.must(err)
		iccid, err := simwarden.ParseICCID(truth.ICCID)
		w.must(err)
		out[i].iccid, sims[i] = truth.ICCID, store.NewSIM{ICCID: iccid, Raw: truth.ICCID}
	}
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		ids, err := tx.AddSIMs(ctx, w.account, sims, 0)
		for i := range ids {
			out[i].id = ids[i]
		}
		return err
	})
	return out
}

// limit gives the account's group a mode and one limit for all operations together.
func (w *world) limit(mode simwarden.GroupMode, perSecond int) {
	w.t.Helper()
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		if err := tx.SetLimitRate(ctx, w.account.LimitGroupID, "", perSecond); err != nil {
			return err
		}
		return tx.SetGroupMode(ctx, w.account.LimitGroupID, mode)
	})
}

// arrivals are the requests that the carrier saw, those for a purpose alone.
func (w *world) arrivals(purpose simwarden.Purpose) []lab.LogLine {
	var out []lab.LogLine
	for _, l := range w.lab.LogLines() {
		if strings.HasPrefix(l.RequestID, string(purpose)+"-") {
			out = append(out, l)
		}
	}
	return out
}

// called counts the calls in the statistics for a purpose by outcome.
func (w *world) called(purpose simwarden.Purpose, outcomes ...string) int {
	w.t.Helper()
	return w.count(`SELECT coalesce(sum(calls), 0) FROM call_stat WHERE purpose = $1 AND outcome = ANY ($2)`, string(purpose), outcomes)
}

// asker asks the carrier for persons, as a node of its own.
func (w *world) asker() *app.Asker {
	w.t.Helper()
	asker, err := app.NewAsker(w.ctx, app.Config{Store: w.store, Keyring: w.ring, AllowLoopback: true, Holder: "clicks"})
	w.must(err)
	return asker
}

// refresh has a person refresh a SIM, as many times at once as are given. The error is the first.
func (w *world) refresh(c card, times int) error {
	w.t.Helper()
	asker := w.asker()
	service := w.person()
	service.Asker = asker
	errs := make([]error, times)
	var wait sync.WaitGroup
	for i := range times {
		wait.Go(func() {
			r, err := service.Refresh(w.ctx, c.iccid, anna)
			errs[i] = err
			for _, check := range r.Checks {
				if !check.Read {
					errs[i] = fmt.Errorf("%s: %+v", check.Check, *check.WhyNot)
				}
			}
		})
	}
	wait.Wait()
	w.must(asker.Close(w.ctx))
	return errors.Join(errs...)
}

const duePolls = 1000

func TestS14EnforceHoldsPollsBackAndLetsAPersonPass(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "soracom", seldom)
	const perSecond, clicks = 5, 20
	w.limit(simwarden.GroupEnforce, perSecond)
	fleet := w.fleet(duePolls)
	w.run()
	eventually(t, "polls go out", func() bool { return len(w.arrivals(simwarden.PurposePoll)) >= 2*perSecond })

	begun := time.Now()
	if err := w.refresh(fleet[0], clicks); err != nil {
		t.Fatalf("a person's refresh did not pass: %v", err)
	}
	// That many that waited for slots would have taken nearly four seconds, if no poll had one.
	if took := time.Since(begun); took > (clicks-1)*time.Second/perSecond {
		t.Errorf("%d refreshes took %s, want all to pass at once", clicks, took)
	}
	eventually(t, "the carrier has noted all refreshes", func() bool {
		reads := 0
		for _, l := range w.arrivals(simwarden.PurposeManualRefresh) {
			if l.Operation == simwarden.OpQueryState {
				reads++
			}
		}
		return reads == clicks
	})

	before := len(w.arrivals(simwarden.PurposePoll))
	eventually(t, "polls go on after the exempt calls have used up their slots", func() bool {
		return len(w.arrivals(simwarden.PurposePoll)) >= before+3*perSecond
	})
	eventually(t, "what was held back is counted", func() bool { return w.called(simwarden.PurposePoll, "blocked") > 0 })
	if n := w.count(`SELECT coalesce(sum(calls), 0) FROM call_stat WHERE purpose = 'poll' AND outcome NOT IN ('ok', 'blocked')`); n > 0 {
		t.Errorf("%d polls failed: a limit is no failure (P2)", n)
	}
	if n := w.called(simwarden.PurposeManualRefresh, "ok"); n < clicks {
		t.Errorf("%d refreshes are counted, want all %d (G2)", n, clicks)
	}
	report := w.report(t)
	if report.Looked.Limits != 1 {
		t.Errorf("the checker looked at %d limits, want one", report.Looked.Limits)
	}
	var at []time.Time
	for _, l := range w.arrivals(simwarden.PurposePoll) {
		at = append(at, l.ArrivedAt)
	}
	if n := most(at, time.Second); n > perSecond {
		t.Errorf("a sliding second saw %d polls, the limit is %d (V7)", n, perSecond)
	}
}

// most is the largest number of instants in any sliding window (V7).
func most(at []time.Time, window time.Duration) int {
	slices.SortFunc(at, time.Time.Compare)
	n, first := 0, 0
	for last := range at {
		for at[last].Sub(at[first]) >= window {
			first++
		}
		n = max(n, last-first+1)
	}
	return n
}

func TestS14WhatWasHeldBackComesAgain(t *testing.T) {
	// Polls are rescheduled: more of them wait than a poll has patience for, and each SIM is read in
	// the end.
	t.Parallel()
	w := newWorld(t, "soracom", seldom)
	w.limit(simwarden.GroupEnforce, 4)
	w.fleet(60)
	w.run()
	eventually(t, "every SIM's usage is read", func() bool { return w.count(`SELECT count(*) FROM poll_state WHERE usage_read_at IS NULL`) == 0 })
	eventually(t, "what was held back is counted", func() bool { return w.called(simwarden.PurposePoll, "blocked") > 0 })
	if n := w.count(`SELECT coalesce(sum(calls), 0) FROM call_stat WHERE purpose = 'poll' AND outcome NOT IN ('ok', 'blocked')`); n > 0 {
		t.Errorf("%d polls failed: a limit is no failure (P2)", n)
	}
}

func TestS15MonitorHoldsNothingBackAndCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "soracom", seldom)
	w.limit(simwarden.GroupMonitor, 5)
	fleet := w.fleet(duePolls)
	w.run()
	if err := w.refresh(fleet[0], 1); err != nil {
		t.Fatalf("a person's refresh did not pass: %v", err)
	}
	eventually(t, "every SIM's usage is read", func() bool { return w.count(`SELECT count(*) FROM poll_state WHERE usage_read_at IS NULL`) == 0 })
	eventually(t, "all polls are counted", func() bool { return w.called(simwarden.PurposePoll, "ok") >= duePolls })
	if n := w.called(simwarden.PurposePoll, "blocked"); n > 0 {
		t.Errorf("%d polls were blocked in monitor (G3)", n)
	}
	would, sent := w.called(simwarden.PurposePoll, "would_block"), w.called(simwarden.PurposePoll, "ok")
	if would < sent/2 || would > sent {
		t.Errorf("%d of %d polls are counted as would-be blocks, with 5 a second most would have been", would, sent)
	}
	if n := w.called(simwarden.PurposeManualRefresh, "would_block"); n > 0 {
		t.Errorf("%d refreshes are counted as would-be blocks: they are exempt", n)
	}
}

func TestG4TwoProcessesKeepOneLimitTogether(t *testing.T) {
	t.Parallel()
	bench := exec.CommandContext(t.Context(), binary(t, ""), "bench", "limit", "--per-second", "20", "--processes", "2", "--seconds", "3")
	out, err := bench.Output()
	if err != nil {
		t.Fatalf("bench limit: %v\n%s", err, out)
	}
	var report struct {
		Results []struct {
			Most       int     `json:"most_in_a_sliding_second"`
			Share      float64 `json:"share_of_the_limit_used"`
			Arrivals   int     `json:"arrivals"`
			Violations int     `json:"violations"`
			Failed     int     `json:"failed"`
			ByProcess  []int   `json:"calls_by_process"`
		} `json:"results"`
	}
	if err := json.Unmarshal(out, &report); err != nil || len(report.Results) != 1 {
		t.Fatalf("bench limit printed %s: %v", out, err)
	}
	r := report.Results[0]
	if r.Most > 20 || r.Violations > 0 || r.Failed > 1 { // the last call of all may be cut short
		t.Errorf("two processes with 20 a second: %+v", r)
	}
	if len(r.ByProcess) != 2 || r.ByProcess[0] == 0 || r.ByProcess[1] == 0 || r.Share < 0.5 {
		t.Errorf("both processes were to use the limit: %+v", r)
	}
}
