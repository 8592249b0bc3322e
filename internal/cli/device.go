package cli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/api"
	"github.com/simwarden/simwarden/internal/store"
)

type deviceCmd struct {
	Add       deviceAddCmd       `cmd:"" help:"Add a device."`
	List      deviceListCmd      `cmd:"" help:"List devices."`
	Show      deviceShowCmd      `cmd:"" help:"Show a device with its SIMs, plans and past SIMs."`
	Bind      deviceBindCmd      `cmd:"" help:"Put a SIM into a device: the device's plans count for it from then on."`
	Unbind    deviceUnbindCmd    `cmd:"" help:"Take a SIM out of a device: it is without a plan until one is bought for it."`
	Pause     devicePauseCmd     `cmd:"" help:"Stop the polling of all its SIMs, and with it automatic suspends and resumes save those of plan ends."`
	Resume    deviceResumeCmd    `cmd:"" help:"Take the polling of a device up again; its SIMs are judged at once."`
	Subscribe deviceSubscribeCmd `cmd:"" help:"Buy a plan for a device with all its SIMs, or queue it behind the current one."`
}

type deviceAddCmd struct {
	IMEI string `arg:"" name:"imei" help:"Its IMEI."`
	Name string `help:"How you call it."`
}

// Run adds a device.
func (c *deviceAddCmd) Run(ctx context.Context, g *Globals) error {
	return g.with(ctx, func(e *env) error {
		d, err := e.AddDevice(ctx, c.IMEI, c.Name, actor())
		if err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, d)
		}
		fmt.Fprintf(g.Out, "Device %s is added. Put a SIM into it: simwarden device bind %s ICCID --reason …\n", d.IMEI, d.IMEI)
		return nil
	})
}

type deviceListCmd struct {
	Paused bool   `help:"Only those whose polling is paused."`
	Search string `help:"The beginning of an IMEI or name."`
	Limit  int    `default:"100" help:"Rows, at most 500."`
	Cursor string `help:"The next_cursor of the page before (with --json)."`
}

// Run lists devices.
func (c *deviceListCmd) Run(ctx context.Context, g *Globals) error {
	return g.with(ctx, func(e *env) error {
		page, err := e.Devices(ctx, api.DeviceQuery{Paused: c.Paused, Search: c.Search, Limit: c.Limit, Cursor: c.Cursor})
		if err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, page)
		}
		t := newTable("IMEI", "SIMS", "POLLING", "NAME")
		for _, d := range page.Items {
			t.add(d.IMEI, strconv.Itoa(d.SIMs), devicePolling(d), clean(d.Name, 60))
		}
		t.print(g.Out)
		if page.Next != "" {
			fmt.Fprintf(g.Out, "There are more: --cursor %s\n", page.Next)
		}
		return nil
	})
}

func devicePolling(d store.Device) string {
	if d.PausedAt.IsZero() {
		return "on"
	}
	return "paused by " + clean(d.PausedBy, 60)
}

type deviceShowCmd struct {
	IMEI string `arg:"" name:"imei" help:"The device's IMEI, with or without its check digit."`
}

// deviceStays is how many stays of SIMs are shown.
const deviceStays = 20

// Run shows a device.
func (c *deviceShowCmd) Run(ctx context.Context, g *Globals) error {
	return g.with(ctx, func(e *env) error {
		d, err := e.Device(ctx, c.IMEI)
		if err != nil {
			return err
		}
		stays, err := e.DeviceBindings(ctx, c.IMEI, "", deviceStays)
		if err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, map[string]any{"device": d, "bindings": stays.Items})
		}
		deviceText(g, e, d, stays.Items)
		return nil
	})
}

func deviceText(g *Globals, e *env, d api.DeviceView, stays []store.Binding) {
	p := func(format string, args ...any) { fmt.Fprintf(g.Out, format+"\n", args...) }
	now := e.Store.Now()
	p("Device %s  %s, polling %s", d.IMEI, clean(d.Name, 60), devicePolling(d.Device))
	p("SIMs")
	for _, sim := range d.Cards {
		p("  %s  %s, wanted %s %s", sim.ICCID, sim.State, sim.Desired, sim.Reason)
	}
	p("Plans")
	for _, b := range d.Subscriptions {
		p("  %s", subscriptionText(b, api.Explanation{At: now}))
	}
	p("SIMs that came and went, newest first")
	for _, s := range stays {
		until := "now"
		if !s.UnboundAt.IsZero() {
			until = fmt.Sprintf("%s by %s (%s)", when(s.UnboundAt, now), clean(s.UnboundBy, 60), clean(s.UnboundReason, 80))
		}
		p("  %s  from %s by %s (%s) until %s", s.ICCID, when(s.BoundAt, now), clean(s.BoundBy, 60), clean(s.BoundReason, 80), until)
	}
}

type deviceBindCmd struct {
	IMEI      string `arg:"" name:"imei" help:"The device's IMEI."`
	ICCID     string `arg:"" name:"iccid" help:"The SIM's ICCID."`
	MovePlans bool   `help:"Make the SIM's own plans the device's; without it a SIM that has some is refused."`
	Reason    string `required:"" help:"Why; kept in the audit log."`
}

// Run puts a SIM into a device (E8).
func (c *deviceBindCmd) Run(ctx context.Context, g *Globals) error {
	return g.with(ctx, func(e *env) error {
		b, err := e.BindSIM(ctx, c.IMEI, c.ICCID, c.MovePlans, actor(), c.Reason)
		if err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, b)
		}
		fmt.Fprintf(g.Out, "%s is in device %s now and is judged by its plans.\n", b.SIM.ICCID, b.Device.IMEI)
		if len(b.Moved) > 0 {
			fmt.Fprintf(g.Out, "%d of its plans are the device's now.\n", len(b.Moved))
		}
		return nil
	})
}

type deviceUnbindCmd struct {
	IMEI   string `arg:"" name:"imei" help:"The device's IMEI."`
	ICCID  string `arg:"" name:"iccid" help:"The SIM's ICCID."`
	Reason string `required:"" help:"Why; kept in the audit log."`
}

// Run takes a SIM out of a device.
func (c *deviceUnbindCmd) Run(ctx context.Context, g *Globals) error {
	return g.with(ctx, func(e *env) error {
		b, err := e.UnbindSIM(ctx, c.IMEI, c.ICCID, actor(), c.Reason)
		if err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, b)
		}
		fmt.Fprintf(g.Out, "%s is not in device %s any more and is judged by its own plans.\n", b.SIM.ICCID, b.Device.IMEI)
		return nil
	})
}

type devicePollingCmd struct {
	IMEI   string `arg:"" name:"imei" help:"The device's IMEI."`
	Reason string `required:"" help:"Why; kept in the audit log."`
}

type devicePauseCmd struct{ devicePollingCmd }

// Run pauses a device's polling (P4).
func (c *devicePauseCmd) Run(ctx context.Context, g *Globals) error { return c.run(ctx, g, true) }

type deviceResumeCmd struct{ devicePollingCmd }

// Run takes a device's polling up again (E9).
func (c *deviceResumeCmd) Run(ctx context.Context, g *Globals) error { return c.run(ctx, g, false) }

func (c *devicePollingCmd) run(ctx context.Context, g *Globals, pause bool) error {
	return g.with(ctx, func(e *env) error {
		d, changed, err := e.DevicePolling(ctx, c.IMEI, pause, actor(), c.Reason)
		if err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, map[string]any{"device": d, "changed": changed})
		}
		words := map[bool]string{true: "paused", false: "running"}[pause]
		if !changed {
			fmt.Fprintf(g.Out, "The polling of device %s was %s already.\n", d.IMEI, words)
			return nil
		}
		fmt.Fprintf(g.Out, "The polling of device %s with its %d SIMs is %s now.\n", d.IMEI, d.SIMs, words)
		return nil
	})
}

type deviceSubscribeCmd struct {
	IMEI string `arg:"" name:"imei" help:"The device's IMEI."`
	Plan string `arg:"" help:"The plan's code."`
	purchaseFlags
}

// Run buys or queues a plan for a device.
func (c *deviceSubscribeCmd) Run(ctx context.Context, g *Globals) error {
	return g.with(ctx, func(e *env) error {
		b, err := e.SubscribeDevice(ctx, c.IMEI, c.purchase(c.Plan), actor())
		if err != nil {
			return err
		}
		return g.subscription(e, b)
	})
}

type simRealnameCmd struct {
	ICCID  string `arg:"" name:"iccid" help:"The SIM's ICCID."`
	Status string `arg:"" enum:"verified,unverified" help:"verified or unverified."`
	Reason string `required:"" help:"Why; kept in the audit log."`
}

// Run sets a SIM's real-name status by hand, where its carrier does not tell it (E2).
func (c *simRealnameCmd) Run(ctx context.Context, g *Globals) error {
	return g.with(ctx, func(e *env) error {
		sim, changed, err := e.SetRealName(ctx, c.ICCID, simwarden.RealName(c.Status), actor(), c.Reason)
		if err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, map[string]any{"sim": sim, "changed": changed})
		}
		if !changed {
			fmt.Fprintf(g.Out, "%s was %s already.\n", sim.ICCID, c.Status)
			return nil
		}
		fmt.Fprintf(g.Out, "%s is %s now and is judged at once.\n", sim.ICCID, c.Status)
		return nil
	})
}

type accountProgressCmd struct {
	Name string `arg:"" help:"The account."`
}

// Run shows how far evaluations of all the account's SIMs have come (S19).
func (c *accountProgressCmd) Run(ctx context.Context, g *Globals) error {
	return g.with(ctx, func(e *env) error {
		list, err := e.AccountEvaluations(ctx, c.Name)
		if err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, list)
		}
		t := newTable("ASKED", "BY", "SCENE", "JUDGED", "COMMANDS", "STATE")
		for _, v := range list {
			state := "under way"
			if !v.FinishedAt.IsZero() {
				state = v.Outcome
			}
			t.add(when(v.AskedAt, e.Store.Now()), clean(v.AskedBy, 60), string(v.Scene), fmt.Sprintf("%d of %d", v.Done, v.Total), strconv.FormatInt(v.Ordered, 10), state)
		}
		t.print(g.Out)
		return nil
	})
}
