package cli

import (
	"context"
	"fmt"
	"time"
)

type guardBandCmd struct {
	Account string `help:"Of this account alone."`
	Days    int    `default:"30" help:"Of stops ordered within so many days."`
}

// Run reports how often the promises of guard bands were kept (E12).
func (c *guardBandCmd) Run(ctx context.Context, g *Globals) error {
	if c.Days < 1 {
		return usage("%d days: give 1 or more", c.Days)
	}
	return g.with(ctx, func(e *env) error {
		list, err := e.GuardBands(ctx, c.Account, e.Store.Now().Add(-time.Duration(c.Days)*24*time.Hour))
		if err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, list)
		}
		if len(list) == 0 {
			fmt.Fprintf(g.Out, "No stop under a guard band in the last %s. A plan gets one by: simwarden plan add CODE --guard-band 50MB …\n", times(c.Days, "day"))
			return nil
		}
		t := newTable("ACCOUNT", "PLAN", "GUARD BAND", "PROMISED", "STOPS", "EARLY", "KEPT", "SHARE", "WORST OVERRUN")
		for _, r := range list {
			t.add(r.Account, r.Plan, bytesText(r.GuardBandBytes), fmt.Sprint(r.Probability), fmt.Sprint(r.Promises), fmt.Sprint(r.Early),
				fmt.Sprint(r.Kept), fmt.Sprintf("%.3f", r.KeptShare), bytesText(r.WorstOverrunBytes))
		}
		t.print(g.Out)
		return nil
	})
}
