package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/pprof"
	"time"
)

type benchCmd struct {
	Poll        benchPollCmd        `cmd:"" help:"Measure polling by list pages, with and without the database, at simulated carriers."`
	Limit       benchLimitCmd       `cmd:"" help:"Measure how exactly several processes keep one limit together."`
	Lapse       benchLapseCmd       `cmd:"" help:"Let the plans of a fleet end at one instant, kill the node while it handles them, and count."`
	LapseNode   benchNodeCmd        `cmd:"" hidden:"" help:"The node of bench lapse."`
	LimitWorker benchLimitWorkerCmd `cmd:"" name:"limit-worker" hidden:"" help:"One process of bench limit."`
}

type benchPollCmd struct {
	Sims        int     `help:"SIMs of each carrier." default:"20000"`
	Seconds     float64 `help:"How long each loop is measured at least, in all." default:"10"`
	Carrier     string  `help:"Whose list pages: soracom, supersim or both." enum:"soracom,supersim,both" default:"both"`
	CompareSims int     `help:"Measure a fleet of this size too, by turns, and give the ratio of the costs; 0: none." default:"0"`
	CPUProfile  string  `name:"cpuprofile" help:"Afterwards, run the loop with the database once more and write a CPU profile of it, with .soracom and .supersim added to the name for both." type:"path" placeholder:"FILE"`
}

const benchMostSIMs = 5_000_000

// Run measures and prints one JSON object.
func (c *benchPollCmd) Run(ctx context.Context, g *Globals) error {
	switch {
	case g.DatabaseURL != "":
		return errors.New("bench poll measures a private Postgres of its own, in a directory that it removes; leave --database-url out")
	case c.Sims < 100 || c.Sims > benchMostSIMs:
		return fmt.Errorf("--sims %d: give 100 to %d", c.Sims, benchMostSIMs)
	case c.CompareSims != 0 && (c.CompareSims < 100 || c.CompareSims > benchMostSIMs || c.CompareSims == c.Sims):
		return fmt.Errorf("--compare-sims %d: give 100 to %d, another number than --sims", c.CompareSims, benchMostSIMs)
	case c.Seconds <= 0 || c.Seconds > 3600:
		return fmt.Errorf("--seconds %v: give more than 0 and no more than 3600", c.Seconds)
	}
	report, err := c.measure(ctx, g)
	if err != nil {
		return err
	}
	return printJSON(g.Out, report)
}

func (c *benchPollCmd) measure(ctx context.Context, g *Globals) (benchReport, error) {
	report := benchReport{Poll: benchPollIs, Loop: benchLoopIs, Cost: benchCostIs, CPUs: runtime.GOMAXPROCS(0), Go: runtime.Version(), TargetsMet: true}
	carriers := []string{c.Carrier}
	if c.Carrier == "both" {
		carriers = []string{"soracom", "supersim"}
	}
	for _, carrier := range carriers {
		if err := c.carrier(ctx, g, carrier, &report); err != nil {
			return report, fmt.Errorf("bench poll at %s: %w", carrier, err)
		}
	}
	return report, nil
}

// carrier measures one carrier's fleet, and the smaller or larger one by turns with it.
func (c *benchPollCmd) carrier(ctx context.Context, g *Globals, carrier string, report *benchReport) (err error) {
	sizes := []int{c.Sims}
	if c.CompareSims != 0 {
		sizes = append(sizes, c.CompareSims)
	}
	runs := make([]*benchRun, 0, len(sizes))
	for _, sims := range sizes {
		fmt.Fprintf(g.Err, "%s: %d SIMs are made and read …\n", carrier, sims)
		rig, err := newBenchRig(ctx, g, carrier, sims)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, rig.stop()) }()
		run := &benchRun{rig: rig}
		if err := run.begin(ctx); err != nil {
			return err
		}
		runs = append(runs, run)
	}
	for i := range benchRounds {
		fmt.Fprintf(g.Err, "%s: round %d of %d …\n", carrier, i+1, benchRounds)
		for _, run := range runs {
			if err := run.round(ctx, time.Duration(c.Seconds*float64(time.Second))/benchRounds); err != nil {
				return err
			}
		}
	}
	for _, run := range runs {
		if run.after, err = run.rig.readServer(ctx); err != nil {
			return err
		}
	}
	return errors.Join(report.take(ctx, runs), c.profile(ctx, g.Err, runs[0].rig))
}

// begin starts the rig's loops and takes what was spent before.
func (r *benchRun) begin(ctx context.Context) (err error) {
	if err := r.rig.start(ctx); err != nil {
		return err
	}
	r.scheduleBytes = max(int64(heap())-int64(r.rig.heapBefore), 0)
	r.before, err = r.rig.readServer(ctx)
	return err
}

// take adds the results of one carrier's fleets, the one that the others are compared with last.
func (b *benchReport) take(ctx context.Context, runs []*benchRun) error {
	server, err := runs[0].rig.env.Store.Server(ctx)
	if err != nil {
		return err
	}
	b.Postgres = server.Version
	for _, run := range runs {
		b.Results = append(b.Results, run.result())
	}
	first, last := b.Results[len(b.Results)-len(runs)], b.Results[len(b.Results)-1]
	b.TargetsMet = b.TargetsMet && first.ShareOfCeiling >= benchLeastShare
	if len(runs) > 1 {
		compare := benchCompare{Carrier: first.Carrier, SIMs: first.SIMs, To: last.SIMs, CostRatio: rounded(ratio(first.CPU, last.CPU))}
		b.Comparisons = append(b.Comparisons, compare)
		b.TargetsMet = b.TargetsMet && compare.CostRatio <= benchMostRatio
	}
	now, peak, err := memory()
	b.RSSBytes, b.RSSPeakBytes = max(b.RSSBytes, now), peak
	return err
}

// profile runs the loop with the database once more; a profile costs, so the figures are without it.
func (c *benchPollCmd) profile(ctx context.Context, say io.Writer, rig *benchRig) error {
	if c.CPUProfile == "" {
		return nil
	}
	name := c.CPUProfile
	if c.Carrier == "both" {
		name += "." + rig.carrier
	}
	f, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("CPU profile: %w", err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return errors.Join(fmt.Errorf("CPU profile: %w", err), f.Close())
	}
	_, err = rig.span(ctx, time.Duration(c.Seconds*float64(time.Second)), false)
	pprof.StopCPUProfile()
	fmt.Fprintf(say, "CPU profile of %s: go tool pprof %s\n", rig.carrier, name)
	return errors.Join(err, f.Close())
}
