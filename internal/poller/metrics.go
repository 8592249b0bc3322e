package poller

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/simwarden/simwarden"
)

// Stats are counts since the poller was made, and the time spent in each phase: summed over
// goroutines, so that one second may hold several.
type Stats struct {
	Polls    int64 `json:"polls"` // SIMs read, by single checks and on list pages
	Single   int64 `json:"single"`
	Listed   int64 `json:"listed"`
	Pages    int64 `json:"pages"`
	Passes   int64 `json:"passes"` // complete ones
	Unknown  int64 `json:"unknown"`
	Limited  int64 `json:"limited"`
	Failed   int64 `json:"failed"`
	Touched  int64 `json:"touched"`
	Judged   int64 `json:"judged"`
	Lost     int64 `json:"lost"`
	SetAside int64 `json:"set_aside"`

	HTTP   time.Duration `json:"http_ns"`
	Decide time.Duration `json:"decide_ns"`
	Sink   time.Duration `json:"sink_ns"`
}

// counters are Stats under way.
type counters struct {
	single, listed, pages, passes, unknown, limited, failed atomic.Int64
	touched, judged, lost, setAside                         atomic.Int64
	http, decide, sink                                      atomic.Int64
}

func (c *counters) stats() Stats {
	s := Stats{
		Single: c.single.Load(), Listed: c.listed.Load(), Pages: c.pages.Load(), Passes: c.passes.Load(), Unknown: c.unknown.Load(),
		Limited: c.limited.Load(), Failed: c.failed.Load(), Touched: c.touched.Load(), Judged: c.judged.Load(), Lost: c.lost.Load(), SetAside: c.setAside.Load(),
		HTTP: time.Duration(c.http.Load()), Decide: time.Duration(c.decide.Load()), Sink: time.Duration(c.sink.Load()),
	}
	s.Polls = s.Single + s.Listed
	return s
}

type metrics struct {
	polls    *prometheus.CounterVec
	lateness *prometheus.HistogramVec
	rows     *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer, p *Poller) (*metrics, error) {
	m := &metrics{
		polls: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "simwarden_polls_total",
			Help: "Checks of SIMs by kind and outcome; a list page counts each SIM that it names."}, []string{"kind", "outcome"}),
		lateness: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "simwarden_poll_lateness_seconds",
			Help: "How long after its due time a single check was begun.", Buckets: prometheus.ExponentialBuckets(0.1, 4, 10)}, []string{"kind"}),
		rows: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "simwarden_poll_readings_total",
			Help: "Readings by what became of them: touched (nothing new), judged, lost (the shard is another's), set_aside, unknown (a SIM that is not in the fleet)."}, []string{"fate"}),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.polls, m.lateness, m.rows,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "simwarden_poll_shards", Help: "Poll shards that this node holds."}, func() float64 { return float64(p.Shards()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "simwarden_poll_sims", Help: "SIMs in this node's poll schedule."}, func() float64 { return float64(p.SIMs()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "simwarden_poll_queue", Help: "SIMs that wait for a check, due or not."}, func() float64 { return float64(p.Queued()) }),
	} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (p *Poller) count(kind simwarden.CheckKind, o outcome, n int) {
	p.metrics.polls.WithLabelValues(string(kind), string(o)).Add(float64(n))
	switch o {
	case outRead:
		p.counters.single.Add(int64(n))
	case outListed:
		p.counters.listed.Add(int64(n))
	case outLimited:
		p.counters.limited.Add(int64(n))
	case outFailed, outPanicked:
		p.counters.failed.Add(int64(n))
	}
}

func (p *Poller) countKept(k Kept) {
	for _, f := range []struct {
		fate string
		n    int
		to   *atomic.Int64
	}{{"touched", k.Touched, &p.counters.touched}, {"judged", k.Judged, &p.counters.judged}, {"lost", k.Lost, &p.counters.lost}} {
		if f.n > 0 {
			p.metrics.rows.WithLabelValues(f.fate).Add(float64(f.n))
			f.to.Add(int64(f.n))
		}
	}
}
