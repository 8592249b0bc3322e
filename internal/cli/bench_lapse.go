package cli

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/simwarden/simwarden"
)

type benchLapseCmd struct {
	Sims  int    `help:"SIMs whose main plans end at one instant." default:"100000"`
	Kills int    `help:"How many times the node is killed while it handles them." default:"20"`
	Seed  uint64 `help:"The same seed kills at the same shares of the work." default:"1"`
}

// lapseReport is what bench lapse prints.
type lapseReport struct {
	What           string  `json:"what"`
	CPUs           int     `json:"cpus"`
	Go             string  `json:"go"`
	Postgres       string  `json:"postgres"`
	SIMs           int     `json:"sims"`
	Kills          int     `json:"kills"`
	RunningSeconds float64 `json:"running_seconds"` // that a node ran, its start included, from the instant until all were decided
	LapsesPerSec   float64 `json:"lapses_per_second"`
	Decided        int64   `json:"decided_exactly_once"` // one lapse in the timeline, one trigger, one command
	Lost           int64   `json:"lost"`
	Twice          int64   `json:"twice"`
	Manual         int     `json:"manual_commands"`
	ManualDone     int     `json:"manual_commands_done"`
	ManualMedian   float64 `json:"manual_wait_seconds_median"`
	ManualLongest  float64 `json:"manual_wait_seconds_longest"` // killed nodes' requests, which are read before they are sent again, among them
	ManualOpen     float64 `json:"manual_wait_seconds_longest_open"`
	TargetsMet     bool    `json:"targets_met"`
}

const (
	benchLapseIs = "every SIM's main plan ends at one instant; the node (sweep of plan ends, evaluation, commands to a lab, each a loop as in serve) is a process of its own, " +
		"killed with SIGKILL at random shares of the work and started again at once; a person suspends another SIM of the same account twice a second"
	// benchLapseMost is how long a node may run for 100,000 plan ends.
	benchLapseMost = 60 * time.Second
	benchLapseRate = 100 // calls a second that the account's limit allows
	// benchLapseLook is how often the parent looks how far the node is.
	benchLapseLook = 10 * time.Millisecond
	benchManual    = 500 * time.Millisecond
	// benchManualMost is how long a person's command may take, a kill in its middle included.
	benchManualMost = 20 * time.Second
	benchGiveUp     = 10 * time.Minute
)

// Run measures and prints one JSON object; ExitFindings where a plan end was lost or handled twice, or
// it took too long.
func (c *benchLapseCmd) Run(ctx context.Context, g *Globals) (err error) {
	switch {
	case g.DatabaseURL != "":
		return usage("bench lapse measures a private Postgres of its own, in a directory that it removes; leave --database-url out")
	case c.Sims < 100 || c.Sims > 1_000_000:
		return usage("--sims %d: give 100 to 1000000", c.Sims)
	case c.Kills < 0 || c.Kills > 1000:
		return usage("--kills %d: give 0 to 1000", c.Kills)
	}
	fmt.Fprintf(g.Err, "%d SIMs are made …\n", c.Sims)
	s, err := newLapseStorm(ctx, g, c.Sims)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	report, err := c.measure(ctx, g, s)
	if err != nil {
		return err
	}
	if err := printJSON(g.Out, report); err != nil {
		return err
	}
	if !report.TargetsMet {
		return errFindings
	}
	return nil
}

func (c *benchLapseCmd) measure(ctx context.Context, g *Globals, s *lapseStorm) (lapseReport, error) {
	r := lapseReport{What: benchLapseIs, CPUs: runtime.GOMAXPROCS(0), Go: runtime.Version(), SIMs: c.Sims}
	server, err := s.env.Store.Server(ctx)
	if err != nil {
		return r, err
	}
	r.Postgres = server.Version
	ran, kills, err := c.storm(ctx, g, s)
	if err != nil {
		return r, err
	}
	r.Kills, r.RunningSeconds, r.LapsesPerSec = kills, rounded(ran.Seconds()), rounded(float64(c.Sims)/ran.Seconds())
	t, err := s.env.Store.TallyLapses(ctx, s.account.ID, s.endAt)
	if err != nil {
		return r, err
	}
	r.Decided = min(t.Expired, t.OneEvent, t.OneTrigger, t.OneCommand)
	r.Lost, r.Twice = int64(c.Sims)-r.Decided-t.SeveralOfAny, t.SeveralOfAny
	if err := s.waits(ctx, &r); err != nil {
		return r, err
	}
	most := max(time.Duration(float64(benchLapseMost)*float64(c.Sims)/100_000), benchLapseMost/4)
	r.TargetsMet = r.Decided == int64(c.Sims) && r.Twice == 0 && ran <= most && r.ManualLongest <= benchManualMost.Seconds() && r.ManualOpen <= benchManualMost.Seconds()
	return r, nil
}

// storm lets nodes work until all is decided, and says for how long they ran from the instant on.
func (c *benchLapseCmd) storm(ctx context.Context, g *Globals, s *lapseStorm) (ran time.Duration, kills int, err error) {
	ctx, cancel := context.WithTimeout(ctx, benchGiveUp)
	defer cancel()
	random := rand.New(rand.NewPCG(c.Seed, 21))
	at := make([]int64, c.Kills) // of which share of the work
	for i := range at {
		at[i] = random.Int64N(int64(c.Sims))
	}
	slices.Sort(at)
	start := time.Now()
	node, err := s.startNode(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, node.kill()) }()
	tick := time.NewTicker(benchLapseLook)
	defer tick.Stop()
	byHand := time.NewTicker(benchManual)
	defer byHand.Stop()
	for {
		select {
		case <-ctx.Done():
			return 0, kills, fmt.Errorf("wait for the plan ends to be handled: %w", ctx.Err())
		case err := <-node.ended:
			node.ended <- err
			return 0, kills, fmt.Errorf("the node ended by itself: %w", err)
		case <-byHand.C:
			if err := s.byHand(ctx); err != nil {
				return 0, kills, err
			}
			continue
		case <-tick.C:
		}
		done, left, err := s.progress(ctx)
		if err != nil {
			return 0, kills, err
		}
		if left == 0 && time.Now().After(s.endAt) {
			return ran + time.Since(later(start, s.endAt)), kills, nil
		}
		if kills == len(at) || done < at[kills] || time.Now().Before(s.endAt) {
			continue
		}
		if err := node.kill(); err != nil {
			return 0, kills, err
		}
		ran += time.Since(later(start, s.endAt))
		kills++
		fmt.Fprintf(g.Err, "killed for the %d. time, after %s of running and %d plan ends\n", kills, ran.Round(time.Millisecond), done)
		start = time.Now()
		if node, err = s.startNode(ctx); err != nil {
			return 0, kills, err
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// waits says how long the person's commands took, and those that are open so far.
func (s *lapseStorm) waits(ctx context.Context, r *lapseReport) error {
	commands, err := s.env.Store.CommandsInScene(ctx, s.account.ID, simwarden.SceneManual, benchStormManual)
	if err != nil {
		return err
	}
	now := s.env.Store.Now()
	var took []time.Duration
	var open time.Duration
	for _, c := range commands {
		if c.State.Open() {
			open = max(open, now.Sub(c.CreatedAt))
			continue
		}
		if c.State != simwarden.CommandDone {
			return fmt.Errorf("command %d of a person is %s: %s", c.ID, c.State, c.EndBecause)
		}
		took = append(took, c.EndedAt.Sub(c.CreatedAt))
	}
	r.Manual, r.ManualDone, r.ManualOpen = len(commands), len(took), rounded(open.Seconds())
	if len(took) > 0 {
		slices.Sort(took)
		r.ManualMedian, r.ManualLongest = rounded(took[len(took)/2].Seconds()), rounded(took[len(took)-1].Seconds())
	}
	return nil
}

// childEnvironment is the parent's, without what would lead the node to another installation.
func childEnvironment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		return len(v) > len(dataDirEnv) && v[:len(dataDirEnv)+1] == dataDirEnv+"=" || len(v) > len(databaseURLEnv) && v[:len(databaseURLEnv)+1] == databaseURLEnv+"="
	})
}
