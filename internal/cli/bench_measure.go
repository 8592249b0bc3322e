package cli

import (
	"context"
	"runtime"
	"time"

	"github.com/simwarden/simwarden/internal/poller"
)

// benchSpan is what was spent while so many SIMs were polled.
type benchSpan struct {
	took   time.Duration
	cpu    time.Duration // of this process: poller, gateway and lab
	stats  poller.Stats  // what was counted within
	passes int
}

func (s *benchSpan) add(o benchSpan) {
	s.took, s.cpu, s.passes = s.took+o.took, s.cpu+o.cpu, s.passes+o.passes
	s.stats = plusStats(s.stats, o.stats, 1)
}

func (s *benchSpan) perSecond() float64 {
	return ratio(float64(s.stats.Polls), s.took.Seconds())
}

// cpuPerPoll is in µs.
func (s *benchSpan) cpuPerPoll(cpu time.Duration) float64 {
	return ratio(float64(cpu)/float64(time.Microsecond), float64(s.stats.Polls))
}

// plusStats adds b, so many times, to a, as far as the bench reports it.
func plusStats(a, b poller.Stats, times int64) poller.Stats {
	a.Polls, a.Single, a.Listed, a.Pages = a.Polls+times*b.Polls, a.Single+times*b.Single, a.Listed+times*b.Listed, a.Pages+times*b.Pages
	a.Touched, a.Judged, a.Lost, a.Failed = a.Touched+times*b.Touched, a.Judged+times*b.Judged, a.Lost+times*b.Lost, a.Failed+times*b.Failed
	a.Decide += time.Duration(times) * b.Decide
	return a
}

// benchServer is what Postgres has spent and counted so far.
type benchServer struct {
	cpu          time.Duration
	wal          int64
	updates, hot int64
}

// benchRounds is how often the loop with the database and the ceiling take turns.
const benchRounds = 4

// benchRun is one rig's measurement under way.
type benchRun struct {
	rig           *benchRig
	before, after benchServer
	with, without benchSpan
	rounds        []benchRound
	scheduleBytes int64
	decision      float64 // µs a poll, the least of the rounds: others on the machine only add to it
}

// round runs both loops over full passes for at least d each.
func (r *benchRun) round(ctx context.Context, d time.Duration) error {
	without, err := r.rig.span(ctx, d, true)
	if err != nil {
		return err
	}
	with, err := r.rig.span(ctx, d, false)
	if err != nil {
		return err
	}
	if d := without.cpuPerPoll(without.stats.Decide); len(r.rounds) == 0 || d < r.decision {
		r.decision = d
	}
	r.without.add(without)
	r.with.add(with)
	r.rounds = append(r.rounds, benchRound{PollsPerSecond: rounded(with.perSecond()), CeilingPollsPerSecond: rounded(without.perSecond()),
		ShareOfCeiling: rounded(ratio(with.perSecond(), without.perSecond()))})
	return nil
}

// span makes passes over the lists for at least d.
func (r *benchRig) span(ctx context.Context, d time.Duration, without bool) (benchSpan, error) {
	r.sink.without.Store(without)
	runtime.GC() // each loop pays for its own garbage
	var s benchSpan
	stats, begun := r.poller.Stats(), time.Now()
	cpu, err := ownCPU()
	if err != nil {
		return s, err
	}
	for s.passes == 0 || time.Since(begun) < d {
		if err := r.pass(ctx); err != nil {
			return s, err
		}
		s.passes++
	}
	s.took = time.Since(begun)
	now, err := ownCPU()
	if err != nil {
		return s, err
	}
	s.cpu, s.stats = now-cpu, plusStats(r.poller.Stats(), stats, -1)
	return s, nil
}

// readServer reads what Postgres has spent; its counts of rows lag by about a second, which is waited for.
func (r *benchRig) readServer(ctx context.Context) (s benchServer, err error) {
	timer := time.NewTimer(benchStatsLag)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return s, ctx.Err()
	}
	if s.updates, s.hot, err = r.env.Store.PollTable(ctx); err != nil {
		return s, err
	}
	if s.wal, err = r.env.Store.WALWritten(ctx); err != nil {
		return s, err
	}
	s.cpu, err = serverCPU(r.postmaster)
	return s, err
}

// benchStatsLag is more than a backend keeps its counts to itself (Postgres 15, pgstat.c: a second).
const benchStatsLag = 1500 * time.Millisecond
