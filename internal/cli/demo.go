package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/alecthomas/kong"

	"github.com/simwarden/simwarden/app"
	"github.com/simwarden/simwarden/internal/check"
	"github.com/simwarden/simwarden/internal/rules"
)

type demoCmd struct {
	For    time.Duration `help:"End by itself after this long; 0: when stopped with Ctrl-C." default:"0s"`
	Report string        `help:"At the end, write one JSON object to this file; - is standard output." placeholder:"FILE"`
	Sims   int           `help:"SIMs in all, shared by the two carriers." default:"5000"`
	Seed   uint64        `help:"The same seed gives the same SIMs, usage and faults." default:"1"`
	Listen string        `help:"Address of the REST API." default:"127.0.0.1:0"`
	Keep   bool          `help:"Keep the data directory afterwards."`
}

const (
	demoLine = 3 * time.Second
	// calmBefore is how long before the end the faults stop, so that what they left can settle.
	calmBefore = 15 * time.Second
	demoSettle = 1500 * time.Millisecond
	// demoCommandTimeout bounds a request in the demo: what hangs should be seen to be dealt with.
	demoCommandTimeout = 3 * time.Second
)

// demoBackoff is the ordinary policy, with pauses that fit a few minutes.
func demoBackoff() rules.BackoffPolicy {
	p := rules.DefaultBackoff()
	p.FirstDelay, p.MaxDelay = time.Second, 8*time.Second
	p.ThrottleDelay, p.HeldDelay, p.BusyDelay = time.Second, 3*time.Second, 2*time.Second
	p.ReopenFirst, p.ReopenMax = 20*time.Second, time.Minute
	return p
}

// demoPace is the ordinary profile, but for errors: a reading that failed is tried again while
// one is watching.
func demoPace() *rules.PaceProfile {
	p := rules.DefaultPace()
	p.RetryAfterError = 6 * time.Second
	return &p
}

// Run shows the main job, start to end.
func (c *demoCmd) Run(ctx context.Context, g *Globals) error {
	if c.Sims < 10 || c.Sims > 200_000 {
		return usage("--sims %d: give 10 to 200000", c.Sims)
	}
	if c.For != 0 && c.For < 20*time.Second {
		return usage("--for %s: give 20s or more, for something to be seen", c.For)
	}
	if err := ownPlace(g); err != nil {
		return err
	}
	if g.DataDir == "" {
		dir, err := passingDir("demo")
		if err != nil {
			return err
		}
		g.DataDir = dir
		if !c.Keep {
			defer os.RemoveAll(dir)
		}
	}
	say := g.Out
	if c.Report == "-" {
		say = g.Err
	}
	return c.run(ctx, g, say)
}

// ownPlace keeps the demo away from an installation that is there: it would fill it with simulated
// SIMs and act on the real ones. What the environment names is meant for other commands.
func ownPlace(g *Globals) error {
	if g.DatabaseURL == os.Getenv(databaseURLEnv) {
		g.DatabaseURL = ""
	}
	if env := os.Getenv(dataDirEnv); env != "" && g.DataDir == kong.ExpandPath(env) {
		g.DataDir = ""
	}
	if g.DatabaseURL != "" {
		return usage("the demo makes a database of its own; leave out --database-url")
	}
	if g.DataDir == "" {
		return nil
	}
	entries, err := os.ReadDir(g.DataDir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look at the demo's directory: %w", err)
	case len(entries) > 0:
		return usage("%s is not empty; the demo needs a directory of its own: leave out --data-dir, or name one that is new", g.DataDir)
	}
	return nil
}

// passingDir makes a data directory for what passes; whoever makes it removes it.
func passingDir(what string) (string, error) {
	dir, err := os.MkdirTemp(demoRoot(), "simwarden-"+what+"-")
	if err == nil {
		err = os.Chmod(dir, 0o755) // the Postgres user must be able to enter it
	}
	if err != nil {
		return "", fmt.Errorf("make a directory for the %s: %w", what, err)
	}
	return dir, nil
}

// demoRoot is where a directory is that the Postgres user can enter, also when root runs the demo.
func demoRoot() string {
	if os.Geteuid() == 0 {
		return "/tmp"
	}
	return os.TempDir()
}

func (c *demoCmd) run(ctx context.Context, g *Globals, say io.Writer) error {
	fmt.Fprintf(say, "Starting a private Postgres in %s …\n", g.DataDir)
	e, err := g.open(ctx, openOptions{own: true, migrate: true})
	if err != nil {
		return err
	}
	defer e.close()
	if err := check.Watch(ctx, e.URL); err != nil {
		return err
	}
	scene, err := newDemoScene(ctx, e, c.Sims, c.Seed)
	if err != nil {
		return err
	}
	defer scene.close()
	fmt.Fprintf(say, "A lab with %d SIMs at two carriers answers at %s/lab/accounts.\n", c.Sims, scene.server.URL)
	n, err := startNode(ctx, e, c.Listen, app.Config{
		AllowLoopback: true, EvaluateEvery: 30 * time.Second, Settle: demoSettle, CommandTimeout: demoCommandTimeout,
		Backoff: demoBackoff(), Pace: demoPace(), ConfirmFor: time.Minute,
	})
	if err != nil {
		return err
	}
	token, err := e.CreateToken(ctx, "demo", actor())
	if err != nil {
		return errors.Join(err, n.stop())
	}
	tokenFile := filepath.Join(e.DataDir, "demo-token")
	if err := os.WriteFile(tokenFile, []byte(token.Text+"\n"), 0o600); err != nil {
		return errors.Join(err, n.stop())
	}
	scene.greet(say, n.address, e.DataDir, tokenFile)
	err = c.play(ctx, e, n, scene, say)
	// The node stops before anything is counted, so that the carriers and the database are looked
	// at in the same state.
	if err := errors.Join(err, n.stop()); err != nil {
		return err
	}
	report, err := scene.report(context.WithoutCancel(ctx), e)
	if err != nil {
		return err
	}
	return c.write(g, report)
}

// play lets the scene run and tells what happens, until the time is over or ctx ends.
func (c *demoCmd) play(ctx context.Context, e *env, n *node, scene *demoScene, say io.Writer) error {
	start := time.Now()
	ticker := time.NewTicker(demoLine)
	defer ticker.Stop()
	act := time.NewTicker(time.Second)
	defer act.Stop()
	var over <-chan time.Time
	if c.For > 0 {
		over = time.After(c.For)
	}
	for {
		select {
		case <-ctx.Done():
			return nil // Ctrl-C is an end like another: what there is, is counted
		case <-over:
			return nil
		case err := <-n.done:
			n.done <- nil
			return errors.Join(errors.New("the node ended by itself"), err)
		case <-act.C:
			calm := c.For > 0 && time.Since(start) > c.For-calmBefore
			if err := scene.act(ctx, e, calm); err != nil && ctx.Err() == nil {
				return err
			}
		case <-ticker.C:
			line, err := scene.line(ctx, e, time.Since(start))
			if err != nil {
				if ctx.Err() != nil {
					continue
				}
				return err
			}
			fmt.Fprintln(say, line)
		}
	}
}

func (c *demoCmd) write(g *Globals, report demoReport) error {
	switch c.Report {
	case "":
		return printJSON(g.Out, report)
	case "-":
		return printJSON(g.Out, report)
	}
	f, err := os.OpenFile(c.Report, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return errors.Join(printJSON(f, report), f.Close())
}
