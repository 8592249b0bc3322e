package cli

import "math"

// benchReport is what the bench prints.
type benchReport struct {
	Poll         string         `json:"poll"` // what is counted as one
	Loop         string         `json:"loop"`
	Cost         string         `json:"cost"`
	CPUs         int            `json:"cpus"`
	Go           string         `json:"go"`
	Postgres     string         `json:"postgres"`
	Results      []benchResult  `json:"results"`
	Comparisons  []benchCompare `json:"comparisons,omitempty"`
	RSSBytes     int64          `json:"rss_bytes"` // of this process, the lab and every fleet measured within it
	RSSPeakBytes int64          `json:"rss_peak_bytes"`
	TargetsMet   bool           `json:"targets_met"`
}

const (
	benchPollIs = "one SIM's state read from a page of the carrier's list, found in the schedule, its next check set, and, unchanged, its instants written to the database"
	benchLoopIs = "real poller and gateway, a lab on loopback HTTP in the same process that answers at once, accounts without limits, every SIM active and settled; " +
		"the wait between two passes over a list is left out; the ceiling is the same loop with nothing written, and takes turns with it"
	benchCostIs = "CPU of this process and of Postgres; http (client and lab) = ceiling - decision; decision = time spent to match readings and set due times, by the wall clock, the least of the rounds, and so at most; " +
		"database = with database - ceiling"
)

// benchResult is one fleet at one carrier. CPU is in microseconds per poll, user and system.
type benchResult struct {
	Carrier  string `json:"carrier"`
	SIMs     int    `json:"sims"`
	Accounts int    `json:"accounts"`

	Polls                 int64   `json:"polls"` // with the database
	SIMsPerPage           float64 `json:"sims_per_page"`
	MeasuredSeconds       float64 `json:"measured_seconds"`
	CeilingSeconds        float64 `json:"ceiling_measured_seconds"`
	PollsPerSecond        float64 `json:"polls_per_second"`
	CeilingPollsPerSecond float64 `json:"ceiling_polls_per_second"`
	ShareOfCeiling        float64 `json:"share_of_ceiling"`

	CPU                 float64 `json:"cpu_us_per_poll"`
	CPUCeiling          float64 `json:"cpu_us_per_poll_ceiling"`
	CPUHTTP             float64 `json:"cpu_us_per_poll_http"`
	CPUDecision         float64 `json:"cpu_us_per_poll_decision"`
	CPUDatabase         float64 `json:"cpu_us_per_poll_database"`
	CPUDatabasePostgres float64 `json:"cpu_us_per_poll_database_postgres"`
	CPUDatabaseClient   float64 `json:"cpu_us_per_poll_database_client"`

	WALBytesPerPoll     float64 `json:"wal_bytes_per_poll"`
	HOTShare            float64 `json:"hot_share"`
	ScheduleBytesPerSIM int64   `json:"schedule_heap_bytes_per_sim"`

	// What should be nought: readings that were not as known, were another node's, failed, or were
	// not read from a page.
	Judged      int64        `json:"judged"`
	Lost        int64        `json:"lost"`
	Failed      int64        `json:"failed"`
	SingleReads int64        `json:"single_reads"`
	Rounds      []benchRound `json:"rounds"`
}

// benchRound is one turn of both loops.
type benchRound struct {
	PollsPerSecond        float64 `json:"polls_per_second"`
	CeilingPollsPerSecond float64 `json:"ceiling_polls_per_second"`
	ShareOfCeiling        float64 `json:"share_of_ceiling"`
}

// benchCompare holds the cost of a poll in a large fleet against that in a small one.
type benchCompare struct {
	Carrier   string  `json:"carrier"`
	SIMs      int     `json:"sims"`
	To        int     `json:"compared_to_sims"`
	CostRatio float64 `json:"cpu_per_poll_ratio"`
}

// The targets on 2 cores.
const (
	benchLeastShare = 0.6
	benchMostRatio  = 1.2
)

func (r *benchRun) result() benchResult {
	pg := r.after.cpu - r.before.cpu
	polls := float64(r.with.stats.Polls)
	own, ceiling := r.with.cpuPerPoll(r.with.cpu), r.without.cpuPerPoll(r.without.cpu)
	decision := min(r.decision, ceiling)
	postgres := r.with.cpuPerPoll(pg)
	return benchResult{
		Carrier: r.rig.carrier, SIMs: r.rig.sims, Accounts: benchAccounts,
		Polls: r.with.stats.Polls, SIMsPerPage: rounded(ratio(polls, float64(r.with.stats.Pages))),
		MeasuredSeconds: rounded(r.with.took.Seconds()), CeilingSeconds: rounded(r.without.took.Seconds()),
		PollsPerSecond: rounded(r.with.perSecond()), CeilingPollsPerSecond: rounded(r.without.perSecond()),
		ShareOfCeiling: rounded(ratio(r.with.perSecond(), r.without.perSecond())),
		CPU:            rounded(own + postgres), CPUCeiling: rounded(ceiling), CPUHTTP: rounded(ceiling - decision), CPUDecision: rounded(decision),
		CPUDatabase: rounded(own + postgres - ceiling), CPUDatabasePostgres: rounded(postgres), CPUDatabaseClient: rounded(own - ceiling),
		WALBytesPerPoll:     rounded(ratio(float64(r.after.wal-r.before.wal), polls)),
		HOTShare:            rounded(ratio(float64(r.after.hot-r.before.hot), float64(r.after.updates-r.before.updates))),
		ScheduleBytesPerSIM: r.scheduleBytes / int64(r.rig.sims),
		Judged:              r.with.stats.Judged, Lost: r.with.stats.Lost, Failed: r.with.stats.Failed, SingleReads: r.with.stats.Single + r.without.stats.Single,
		Rounds: r.rounds,
	}
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// rounded keeps three decimals, which is more than such a measurement knows.
func rounded(f float64) float64 { return math.Round(f*1000) / 1000 }
