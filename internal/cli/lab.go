package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/simwarden/simwarden/lab"
	_ "github.com/simwarden/simwarden/lab/onelink"  // a dialect of the lab
	_ "github.com/simwarden/simwarden/lab/soracom"  // a dialect of the lab
	_ "github.com/simwarden/simwarden/lab/supersim" // a dialect of the lab
)

type labCmd struct {
	Listen  string   `help:"Loopback address; port 0 takes a free one." default:"127.0.0.1:8471"`
	Account []string `help:"An account as NAME=DIALECT:SIMS, such as acme=soracom:1000; may be repeated." default:"east=soracom:1000,west=supersim:1000" sep:","`
	Seed    uint64   `help:"The same seed gives the same SIMs and usage." default:"1"`
	Scale   float64  `help:"Usage is so many times what such SIMs use." default:"1"`
	Log     string   `help:"Write one JSON line per request to this file." type:"path"`
}

// Run runs a lab until it is told to stop.
func (c *labCmd) Run(ctx context.Context, g *Globals) error {
	var log io.Writer
	if c.Log != "" {
		f, err := os.OpenFile(c.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			return fmt.Errorf("lab log: %w", err)
		}
		defer f.Close()
		log = f
	}
	world := lab.New(lab.Config{Seed: c.Seed, Log: log})
	for _, text := range c.Account {
		if err := c.add(world, text); err != nil {
			return err
		}
	}
	server, err := world.Serve(ctx, c.Listen)
	if err != nil {
		return err
	}
	for _, a := range world.Accounts() {
		fmt.Fprintf(g.Out, "%s: %d SIMs at %s\n", a.Name(), a.Len(), a.BaseURL(server.URL))
		fmt.Fprintf(g.Out, "  simwarden account add %s --driver %s --base-url %s", a.Name(), a.Spec().Dialect, a.BaseURL(server.URL))
		for name, value := range a.Credentials() {
			fmt.Fprintf(g.Out, " --credential %s=%s", name, value)
		}
		fmt.Fprintln(g.Out)
	}
	fmt.Fprintf(g.Out, "Admin: %s/lab/accounts, /lab/faults, /lab/sims, /lab/counters, /lab/log. Stop with Ctrl-C.\n", server.URL)
	<-ctx.Done()
	world.Close()
	return server.Close()
}

func (c *labCmd) add(world *lab.World, text string) error {
	name, rest, ok := strings.Cut(text, "=")
	dialect, count, ok2 := strings.Cut(rest, ":")
	var n int
	if _, err := fmt.Sscanf(count, "%d", &n); err != nil || !ok || !ok2 || n < 0 || n > 1_000_000 {
		return fmt.Errorf("account %q: give NAME=DIALECT:SIMS, such as acme=soracom:1000", text)
	}
	a, err := world.AddAccount(lab.AccountSpec{Name: name, Dialect: dialect, UsageScale: c.Scale})
	if err != nil {
		return err
	}
	_, err = a.Populate(lab.Population{Count: n, ActiveShare: 0.9, InventoryShare: 0.02})
	return err
}
