package gateway

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/clock"
	"github.com/simwarden/simwarden/internal/fault"
	"github.com/simwarden/simwarden/internal/store"
)

// The outcomes in the statistics that are no error class. An HTTP attempt is counted once, as
// OutcomeOK or by its class. The others count what was not sent, and OutcomeWouldBlock what was
// sent all the same (G3): they are no attempts.
const (
	OutcomeOK         = "ok"
	OutcomeNotSent    = "not_sent"    // refused before a byte left: no connection, no time
	OutcomeBlocked    = "blocked"     // by our limit, in enforce
	OutcomeStopped    = "stopped"     // by an account's stop or the circuit breaker
	OutcomeWouldBlock = "would_block" // by our limit, in monitor: counted besides the attempt
)

// IsAttempt says whether an outcome in the statistics counts requests that left this machine.
func IsAttempt(outcome string) bool {
	switch outcome {
	case OutcomeNotSent, OutcomeBlocked, OutcomeStopped, OutcomeWouldBlock:
		return false
	}
	return true
}

// statKey is a row of the statistics without its counts.
type statKey struct {
	minute    int64 // Unix time in minutes
	account   simwarden.AccountID
	operation simwarden.Operation
	purpose   simwarden.Purpose
	outcome   string
}

type statCount struct{ calls, latencyMS int64 }

// maxStatRows bounds what is kept, besides the flush that is under way, while the database cannot be
// written: the oldest goes first.
const maxStatRows = 20_000

// meter counts calls for Prometheus and for the database (G9).
type meter struct {
	store   *store.Store
	clock   clock.Clock
	log     *slog.Logger
	calls   *prometheus.CounterVec
	seconds *prometheus.HistogramVec
	lost    prometheus.Counter

	mu     sync.Mutex
	counts map[statKey]statCount

	flushing sync.Mutex
	// flushed is the latest flush, guarded by flushing; it has counts while it is not known to be written,
	// and is then given again as it was.
	flushed store.CallStatFlush
}

func newMeter(s *store.Store, c clock.Clock, log *slog.Logger, reg prometheus.Registerer) (*meter, error) {
	m := &meter{store: s, clock: c, log: log, counts: map[statKey]statCount{}, flushed: store.CallStatFlush{Writer: rand.Text()},
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "simwarden_carrier_calls_total",
			Help: "HTTP attempts to carriers, and calls that were held back, by outcome."}, []string{"account", "operation", "purpose", "outcome"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "simwarden_carrier_call_seconds",
			Help: "Time of an HTTP attempt from its first byte sent to the last one read.", Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}},
			[]string{"account", "operation"}),
		lost: prometheus.NewCounter(prometheus.CounterOpts{Name: "simwarden_carrier_stat_rows_lost_total",
			Help: "Rows of call statistics dropped while the database could not be written."}),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.calls, m.seconds, m.lost} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("gateway metrics: %w", err)
		}
	}
	return m, nil
}

// add counts one call.
func (m *meter) add(a *account, op simwarden.Operation, purpose simwarden.Purpose, outcome string, took time.Duration) {
	if fault.Planted("V8") && op == simwarden.OpSuspend { // suspends are not counted
		return
	}
	name := a.row.Load().Name
	m.calls.WithLabelValues(name, string(op), string(purpose), outcome).Inc()
	if IsAttempt(outcome) {
		m.seconds.WithLabelValues(name, string(op)).Observe(took.Seconds())
	}
	key := statKey{minute: m.clock.Now().Unix() / 60, account: a.id, operation: op, purpose: purpose, outcome: outcome}
	m.put(key, statCount{1, took.Milliseconds()})
}

func (m *meter) put(key statKey, n statCount) {
	m.mu.Lock()
	defer m.mu.Unlock()
	old, known := m.counts[key]
	if !known && len(m.counts) >= maxStatRows {
		m.dropOldest()
	}
	m.counts[key] = statCount{old.calls + n.calls, old.latencyMS + n.latencyMS}
}

// dropOldest needs mu held.
func (m *meter) dropOldest() {
	oldest := int64(-1)
	for key := range m.counts {
		if oldest < 0 || key.minute < oldest {
			oldest = key.minute
		}
	}
	before := len(m.counts)
	for key := range m.counts {
		if key.minute == oldest {
			delete(m.counts, key)
		}
	}
	m.lost.Add(float64(before - len(m.counts)))
	m.log.Error("gateway: call statistics are lost, the database cannot be written", "rows", before-len(m.counts))
}

// flush adds what was counted to the database, and keeps it for the next time where that fails. A flush
// that may have been written is given again as it is before any other: the database knows its number, and
// counts it once (V8).
func (m *meter) flush(ctx context.Context) error {
	m.flushing.Lock()
	defer m.flushing.Unlock()
	if len(m.flushed.Stats) > 0 {
		if err := m.write(ctx); err != nil {
			return err
		}
	}
	m.flushed.Number, m.flushed.Stats = m.flushed.Number+1, m.take()
	return m.write(ctx)
}

// write needs flushing held.
func (m *meter) write(ctx context.Context) error {
	if err := m.store.AddCallStats(ctx, m.flushed); err != nil {
		return err
	}
	m.flushed.Stats = nil
	return nil
}

// take gives what was counted since it was taken last, in the order of its keys.
func (m *meter) take() []store.CallStat {
	m.mu.Lock()
	taken := m.counts
	m.counts = make(map[statKey]statCount, len(taken))
	m.mu.Unlock()
	rows := make([]store.CallStat, 0, len(taken))
	for key, n := range taken {
		rows = append(rows, store.CallStat{MinuteAt: time.Unix(key.minute*60, 0).UTC(), AccountID: key.account, Operation: key.operation,
			Purpose: key.purpose, Outcome: key.outcome, Calls: n.calls, LatencyMS: n.latencyMS})
	}
	slices.SortFunc(rows, func(a, b store.CallStat) int {
		return cmp.Or(a.MinuteAt.Compare(b.MinuteAt), cmp.Compare(a.AccountID, b.AccountID), cmp.Compare(a.Operation, b.Operation),
			cmp.Compare(a.Purpose, b.Purpose), cmp.Compare(a.Outcome, b.Outcome))
	})
	return rows
}
