package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/api"
	"github.com/simwarden/simwarden/internal/clock"
	"github.com/simwarden/simwarden/internal/gateway"
	"github.com/simwarden/simwarden/internal/secret"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/lab"
)

type benchLimitCmd struct {
	PerSecond []int         `help:"The limits to measure, one after the other." default:"5,50,400"`
	Processes int           `help:"How many processes share each limit." default:"2"`
	Seconds   int           `help:"How long each limit is measured." default:"20"`
	Callers   int           `help:"How many calls each process would make at a time." default:"16"`
	Slack     time.Duration `help:"The limiter's slack: how far the way to the carrier may vary in time." default:"50ms"`
}

// The worst that a limit may show: spec.md G4.
const benchLimitLeastShare = 0.94

// benchLimitReport is what bench limit prints.
type benchLimitReport struct {
	What        string             `json:"what"`
	Processes   int                `json:"processes"`
	SlackMS     float64            `json:"slack_ms"`
	Results     []benchLimitResult `json:"results"`
	TargetsMet  bool               `json:"targets_met"`
	CPUs        int                `json:"cpus"`
	LoadAverage string             `json:"load_average"` // before and after, by the kernel: others' work shows
	Go          string             `json:"go"`
}

const benchLimitIs = "each limit: processes with a gateway each, on one database, read a SIM's state at a simulated carrier over loopback HTTP as often as they may; " +
	"counted are the arrivals by the carrier's log, the highest number in any sliding second, and the rate from the first to the last of them against the limit"

// benchLimitResult is one limit's.
type benchLimitResult struct {
	PerSecond    int     `json:"per_second"`
	Arrivals     int     `json:"arrivals"`
	MostInSecond int     `json:"most_in_a_sliding_second"`
	Share        float64 `json:"share_of_the_limit_used"`
	// Violations are arrivals that the carrier itself says were over the limit.
	Violations int `json:"violations"`
	// Blocked are calls that the gateways held back and that came again, Failed any other failure.
	Blocked   int   `json:"blocked"`
	Failed    int   `json:"failed"`
	ByProcess []int `json:"calls_by_process"`
}

// Run measures and prints one JSON object; a limit that was exceeded is a finding.
func (c *benchLimitCmd) Run(ctx context.Context, g *Globals) error {
	switch {
	case g.DatabaseURL != "":
		return usage("bench limit measures on a private Postgres of its own, in a directory that it removes; leave --database-url out")
	case len(c.PerSecond) == 0 || slices.Min(c.PerSecond) < 1 || slices.Max(c.PerSecond) > 5000:
		return usage("--per-second %v: give limits of 1 to 5000", c.PerSecond)
	case c.Processes < 1 || c.Processes > 16:
		return usage("--processes %d: give 1 to 16", c.Processes)
	case c.Seconds < 2 || c.Seconds > 3600:
		return usage("--seconds %d: give 2 to 3600", c.Seconds)
	case c.Callers < 1 || c.Callers > 1000:
		return usage("--callers %d: give 1 to 1000", c.Callers)
	case c.Slack < time.Millisecond || c.Slack > 250*time.Millisecond:
		return usage("--slack %s: give 1ms to 250ms", c.Slack)
	}
	report, err := c.measure(ctx, g)
	if err != nil {
		return err
	}
	if err := printJSON(g.Out, report); err != nil {
		return err
	}
	for _, r := range report.Results {
		if r.MostInSecond > r.PerSecond || r.Violations > 0 {
			return errFindings
		}
	}
	return nil
}

func (c *benchLimitCmd) measure(ctx context.Context, g *Globals) (report benchLimitReport, err error) {
	report = benchLimitReport{What: benchLimitIs, Processes: c.Processes, SlackMS: float64(c.Slack) / float64(time.Millisecond),
		CPUs: runtime.GOMAXPROCS(0), Go: runtime.Version(), TargetsMet: true}
	dir, err := os.MkdirTemp(demoRoot(), "simwarden-bench-")
	if err != nil {
		return report, fmt.Errorf("make a directory for the bench: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o755); err != nil { // the Postgres user must be able to enter it
		return report, fmt.Errorf("make a directory for the bench: %w", err)
	}
	own := Globals{DataDir: dir, Verbose: g.Verbose, Out: g.Out, Err: g.Err, In: g.In}
	e, err := own.open(ctx, openOptions{own: true, migrate: true})
	if err != nil {
		return report, err
	}
	defer e.close()
	before := loadAverage()
	for _, n := range c.PerSecond {
		fmt.Fprintf(g.Err, "%d a second, %d processes, %d s …\n", n, c.Processes, c.Seconds)
		r, err := c.limit(ctx, e, g.Err, n)
		if err != nil {
			return report, fmt.Errorf("bench limit %d: %w", n, err)
		}
		report.Results = append(report.Results, r)
		report.TargetsMet = report.TargetsMet && r.MostInSecond <= n && r.Violations == 0 && r.Share >= benchLimitLeastShare
	}
	report.LoadAverage = before + ", then " + loadAverage()
	return report, nil
}

// limit measures one limit with an account and a lab of its own.
func (c *benchLimitCmd) limit(ctx context.Context, e *env, say io.Writer, n int) (r benchLimitResult, err error) {
	world := lab.New(lab.Config{Seed: 1, KeepLines: 2*n*(c.Seconds+10) + 1000})
	server, err := world.Serve(context.WithoutCancel(ctx), "")
	if err != nil {
		return r, err
	}
	defer func() {
		world.Close()
		err = errors.Join(err, server.Close())
	}()
	there, err := world.AddAccount(lab.AccountSpec{Name: fmt.Sprintf("limit-%d", n), Dialect: "soracom",
		Limits: lab.Limits{OnlyLog: true, Windows: []lab.Limit{lab.PerSecond(n, simwarden.OpQueryState)}}})
	if err != nil {
		return r, err
	}
	truth, err := there.AddSIM(lab.NewSIM{State: simwarden.StateActive, Age: time.Hour})
	if err != nil {
		return r, err
	}
	credentials := map[string]secret.Secret{}
	for name, value := range there.Credentials() {
		credentials[name] = secret.New(value)
	}
	name := there.Name()
	if _, err := e.AddAccount(ctx, api.NewAccount{Name: name, Driver: "soracom", BaseURL: there.BaseURL(server.URL), Credentials: credentials}, "bench"); err != nil {
		return r, err
	}
	enforce := simwarden.GroupEnforce
	change := api.LimitGroupChange{Mode: &enforce, PerSecond: map[simwarden.Operation]*int{simwarden.OpQueryState: &n}}
	if _, err := e.ChangeLimitGroup(ctx, name, change, "bench"); err != nil {
		return r, err
	}
	r.PerSecond = n
	if err := c.drive(ctx, e, say, name, truth.ICCID, &r); err != nil {
		return r, err
	}
	r.count(world.LogLines(), n)
	return r, nil
}

// count reads the carrier's log.
func (r *benchLimitResult) count(lines []lab.LogLine, n int) {
	var at []time.Time
	for _, l := range lines {
		if l.Operation == simwarden.OpQueryState {
			at = append(at, l.ArrivedAt)
		}
		if l.LimitViolation != "" {
			r.Violations++
		}
	}
	slices.SortFunc(at, time.Time.Compare)
	r.Arrivals, r.MostInSecond = len(at), mostInWindow(at, time.Second)
	if len(at) > 1 {
		r.Share = rounded(float64(len(at)-1) / at[len(at)-1].Sub(at[0]).Seconds() / float64(n))
	}
}

// mostInWindow is the largest number of instants, in order, in any sliding window that is open at its
// end: two pointers go over them (V7).
func mostInWindow(at []time.Time, window time.Duration) int {
	most, first := 0, 0
	for last := range at {
		for at[last].Sub(at[first]) >= window {
			first++
		}
		most = max(most, last-first+1)
	}
	return most
}

// drive runs the processes, all from one moment on, until each has ended.
func (c *benchLimitCmd) drive(ctx context.Context, e *env, say io.Writer, account, iccid string, r *benchLimitResult) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(c.Seconds)*time.Second+benchWorkerPatience)
	defer cancel()
	workers := make([]*benchWorker, 0, c.Processes)
	defer func() {
		cancel()
		for _, w := range workers {
			_ = w.cmd.Wait() // it has ended, or is killed with the context
		}
	}()
	for i := range c.Processes {
		w, err := startBenchWorker(ctx, say, self, "bench", "limit-worker", "--database-url", e.URL, "--data-dir", e.DataDir,
			"--account", account, "--iccid", iccid, "--seconds", strconv.Itoa(c.Seconds), "--callers", strconv.Itoa(c.Callers),
			"--slack", c.Slack.String(), "--name", fmt.Sprintf("process-%d", i+1))
		if err != nil {
			return err
		}
		workers = append(workers, w)
	}
	for _, w := range workers {
		if err := w.ready(); err != nil {
			return err
		}
	}
	for _, w := range workers {
		if err := w.begin(); err != nil {
			return err
		}
	}
	for _, w := range workers {
		done, err := w.result()
		if err != nil {
			return err
		}
		r.Blocked += done.Blocked
		r.Failed += done.Failed
		r.ByProcess = append(r.ByProcess, done.Calls)
	}
	return nil
}

// benchWorkerPatience is how long processes may take besides what is measured.
const benchWorkerPatience = 60 * time.Second

// benchWorker is one process: it says ready, waits for a line, and says what it did as JSON.
type benchWorker struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// benchWorkerDone is what a process says at its end.
type benchWorkerDone struct {
	Calls   int `json:"calls"`
	Blocked int `json:"blocked"`
	Failed  int `json:"failed"`
}

func startBenchWorker(ctx context.Context, say io.Writer, self string, args ...string) (*benchWorker, error) {
	w := &benchWorker{cmd: exec.CommandContext(ctx, self, args...)}
	w.cmd.Stderr = say
	var err error
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start a process: %w", err)
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start a process: %w", err)
	}
	w.out = bufio.NewReader(out)
	if err := w.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a process: %w", err)
	}
	return w, nil
}

func (w *benchWorker) ready() error {
	line, err := w.out.ReadString('\n')
	if err != nil || strings.TrimSpace(line) != benchReady {
		return fmt.Errorf("a process did not get ready: it said %q: %w", line, err)
	}
	return nil
}

func (w *benchWorker) begin() error {
	_, err := io.WriteString(w.in, "go\n")
	if err != nil {
		return fmt.Errorf("begin a process: %w", err)
	}
	return nil
}

func (w *benchWorker) result() (done benchWorkerDone, err error) {
	line, err := w.out.ReadString('\n')
	if err == nil {
		err = json.Unmarshal([]byte(line), &done)
	}
	if err != nil {
		return done, fmt.Errorf("a process did not say what it did: %q: %w", line, err)
	}
	return done, nil
}

const benchReady = "ready"

type benchLimitWorkerCmd struct {
	Account string        `required:"" help:"The account to call."`
	ICCID   string        `name:"iccid" required:"" help:"The SIM to read."`
	Seconds int           `required:"" help:"How long."`
	Callers int           `required:"" help:"How many calls at a time."`
	Slack   time.Duration `required:"" help:"The limiter's slack."`
	Name    string        `required:"" help:"The node's name."`
}

// Run makes as many calls as it may: one process of bench limit.
func (c *benchLimitWorkerCmd) Run(ctx context.Context, g *Globals) error {
	iccid, err := simwarden.ParseICCID(c.ICCID)
	if err != nil {
		return usage("%v", err)
	}
	e, err := g.open(ctx, openOptions{conns: 4})
	if err != nil {
		return err
	}
	defer e.close()
	account, err := e.Store.AccountByName(ctx, c.Account)
	if err != nil {
		return err
	}
	gate, err := gateway.New(gateway.Options{Store: e.Store, Keyring: e.Keyring, Log: e.Log, AllowLoopback: true, Holder: c.Name, Slack: c.Slack})
	if err != nil {
		return err
	}
	if err := gate.Reload(ctx); err != nil {
		return err
	}
	fmt.Fprintln(g.Out, benchReady)
	if _, err := bufio.NewReader(g.In).ReadString('\n'); err != nil {
		return fmt.Errorf("wait for the beginning: %w", err)
	}
	done := c.call(ctx, gate, account, iccid)
	return json.NewEncoder(g.Out).Encode(done)
}

// call makes calls with all callers until the time is over.
func (c *benchLimitWorkerCmd) call(ctx context.Context, gate *gateway.Gateway, account store.Account, iccid simwarden.ICCID) (done benchWorkerDone) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(c.Seconds)*time.Second)
	defer cancel()
	poll := gateway.Call{Operation: simwarden.OpQueryState, Purpose: simwarden.PurposePoll}
	var mu sync.Mutex
	var wait sync.WaitGroup
	for range c.Callers {
		wait.Go(func() {
			for ctx.Err() == nil {
				err := gate.Do(ctx, account.ID, poll, func(ctx context.Context, conn carrier.Conn) error {
					_, err := conn.State(ctx, carrier.SIMRef{ICCID: iccid})
					return err
				})
				var e *carrier.Error
				limited := errors.As(err, &e) && e.Class == carrier.ClassLimited
				mu.Lock()
				switch {
				case err == nil:
					done.Calls++
				case limited:
					done.Blocked++
				case ctx.Err() == nil:
					done.Failed++
				}
				mu.Unlock()
				if limited {
					_ = clock.System().Sleep(ctx, e.RetryAfter) // as it was told; the context ends the loop
				}
			}
		})
	}
	wait.Wait()
	return done
}

// loadAverage is the kernel's, empty where there is none to read.
func loadAverage() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	return strings.Join(strings.Fields(string(b))[:3], " ")
}
