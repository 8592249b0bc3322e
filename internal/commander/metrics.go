package commander

import "github.com/prometheus/client_golang/prometheus"

// metrics are this process's own; the truth is in the database.
type metrics struct {
	steps    *prometheus.CounterVec // by what the step did
	ended    *prometheus.CounterVec // by how the command ended
	inFlight prometheus.Gauge
	late     prometheus.Counter
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		steps: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "simwarden_command_steps_total",
			Help: "Steps of commands by what came of them."}, []string{"outcome"}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "simwarden_commands_ended_total",
			Help: "Commands that ended, by how."}, []string{"state"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{Name: "simwarden_commands_in_flight",
			Help: "Steps of commands that are calling a carrier now."}),
		late: prometheus.NewCounter(prometheus.CounterOpts{Name: "simwarden_command_late_answers_total",
			Help: "Answers of carriers that came after the attempt had been settled."}),
	}
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.steps, m.ended, m.inFlight, m.late} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}
