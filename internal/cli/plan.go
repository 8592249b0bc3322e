package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/api"
	"github.com/simwarden/simwarden/internal/ledger"
)

type planCmd struct {
	Add    planAddCmd    `cmd:"" help:"Add a plan."`
	List   planListCmd   `cmd:"" help:"List the plans."`
	Change planChangeCmd `cmd:"" help:"Change a plan's name or price, or withdraw it from sale."`
}

type planAddCmd struct {
	Code       string  `arg:"" help:"Short and unique, as you will type it."`
	Name       string  `help:"As people read it; default: the code."`
	Kind       string  `enum:"main,addon" default:"main" help:"main keeps a SIM running; addon adds data to it."`
	Allowance  string  `required:"" help:"Data per reset period: 500MB, 2GB, 1GiB, a number of bytes, or unlimited."`
	Validity   string  `required:"" help:"How long it runs: 30d, 360d, 1mo, month-end, 1bm for one billing month, or 90s for demonstrations."`
	Reset      string  `default:"none" help:"When the allowance is full again: none, month (calendar), billing-month, or every N days, such as 30d."`
	BillingDay int     `help:"The day on which a billing month begins: 27 for the 27th to the 26th; in a shorter month its last day."`
	Activation string  `enum:"now,after-current,first-use,realname,default" default:"default" help:"When it begins: now (refused while another runs), after-current, first-use or realname. Default: after-current, an add-on now."`
	ActivateBy string  `help:"When one that waits for its first use or real name begins without: 90d."`
	Zone       string  `default:"UTC" help:"IANA time zone in which days and months are counted."`
	Price      string  `help:"What it costs, with its currency (ISO 4217), such as 9.90EUR; default: nothing." placeholder:"AMOUNT"`
	GuardBand  string  `help:"How far usage may pass the allowance at most, such as 50MB: its SIMs are suspended early enough for that." placeholder:"DATA"`
	Promise    float64 `help:"With which probability the guard band is promised, 0.5 to 0.999; default: 0.95." placeholder:"SHARE"`
}

// Run adds a plan (L4).
func (c *planAddCmd) Run(ctx context.Context, g *Globals) error {
	p := simwarden.Plan{Code: c.Code, Name: c.Name, Kind: simwarden.PlanKind(c.Kind), Zone: c.Zone}
	if p.Name == "" {
		p.Name = c.Code
	}
	var err error
	if p.AllowanceBytes, err = parseBytes(c.Allowance); err != nil {
		return err
	}
	if p.ValidityUnit, p.ValidityCount, err = parseValidity(c.Validity); err != nil {
		return err
	}
	if p.Reset, p.ResetDays, err = parseReset(c.Reset); err != nil {
		return err
	}
	p.AnchorDay = c.BillingDay
	if c.Activation != "default" {
		p.Activation = simwarden.Activation(strings.ReplaceAll(c.Activation, "-", "_"))
	}
	if p.ActivateByDays, err = parseDays(c.ActivateBy); err != nil {
		return err
	}
	p.GuardBandProbability = c.Promise
	if c.GuardBand != "" {
		guard, err := parseBytes(c.GuardBand)
		if err != nil {
			return err
		}
		p.GuardBandBytes = &guard
	}
	if c.Price != "" {
		price, err := ledger.Parse(c.Price)
		if err != nil {
			return err
		}
		p.PriceMinor, p.Currency = price.AmountMinor, price.Currency
	}
	return g.with(ctx, func(e *env) error {
		p, err := e.AddPlan(ctx, p, actor())
		if err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, p)
		}
		fmt.Fprintf(g.Out, "Plan %s is added. Buy it for a SIM: simwarden subscribe ICCID %s\n", p.Code, p.Code)
		return nil
	})
}

// byteUnits are the units that people write, longest first.
var byteUnits = []struct {
	name  string
	bytes int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1}, {"", 1},
}

func parseBytes(text string) (int64, error) {
	if text == "unlimited" {
		return simwarden.UnlimitedBytes, nil
	}
	for _, u := range byteUnits {
		digits, ok := strings.CutSuffix(text, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
		if err != nil || n < 0 || n > (1<<62)/u.bytes {
			break
		}
		return n * u.bytes, nil
	}
	return 0, usage("allowance %q: give a whole number with B, kB, MB, GB, KiB, MiB or GiB, or unlimited", text)
}

func parseValidity(text string) (simwarden.ValidityUnit, int, error) {
	if text == "month-end" {
		return simwarden.ValidityMonthEnd, 1, nil
	}
	for _, u := range []struct {
		suffix string
		unit   simwarden.ValidityUnit
	}{{"mo", simwarden.ValidityMonths}, {"bm", simwarden.ValidityBilling}, {"d", simwarden.ValidityDays}, {"s", simwarden.ValiditySeconds}} {
		if digits, ok := strings.CutSuffix(text, u.suffix); ok {
			if n, err := strconv.Atoi(digits); err == nil {
				return u.unit, n, nil
			}
		}
	}
	return "", 0, usage("validity %q: give days as 30d, months as 1mo, month-end, billing months as 1bm, or seconds as 90s", text)
}

func parseReset(text string) (simwarden.ResetKind, int, error) {
	switch text {
	case "none":
		return simwarden.ResetNone, 0, nil
	case "month":
		return simwarden.ResetCalendarMonth, 0, nil
	case "billing-month":
		return simwarden.ResetBilling, 0, nil
	}
	if digits, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(digits); err == nil {
			return simwarden.ResetCycle, n, nil
		}
	}
	return "", 0, usage("reset %q: give none, month, billing-month, or a number of days as 30d", text)
}

// parseDays reads a number of days; empty is 0.
func parseDays(text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	if digits, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(digits); err == nil && n > 0 {
			return n, nil
		}
	}
	return 0, usage("%q: give a number of days as 90d", text)
}

// usage is an error about what was typed.
func usage(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{api.ErrBadInput}, args...)...)
}

// validityText is how long a plan runs, in words.
func validityText(p simwarden.Plan) string {
	if p.ValidityUnit == simwarden.ValidityMonthEnd {
		return "month end"
	}
	if p.ValidityUnit == simwarden.ValidityBilling {
		return fmt.Sprintf("%s from day %d", times(p.ValidityCount, "billing month"), p.AnchorDay)
	}
	return times(p.ValidityCount, strings.TrimSuffix(string(p.ValidityUnit), "s"))
}

type planListCmd struct{}

// Run lists the plans.
func (c *planListCmd) Run(ctx context.Context, g *Globals) error {
	return g.with(ctx, func(e *env) error {
		list, err := e.Plans(ctx)
		if err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, list)
		}
		t := newTable("CODE", "KIND", "ALLOWANCE", "VALIDITY", "RESET", "BEGINS", "ZONE", "PRICE", "NAME", "NOTE")
		for _, p := range list {
			note := ""
			if !p.WithdrawnAt.IsZero() {
				note = "withdrawn"
			}
			t.add(p.Code, string(p.Kind), bytesText(p.AllowanceBytes), validityText(p), string(p.Reset), string(p.Activation), p.Zone, priceText(p), p.Name, note)
		}
		t.print(g.Out)
		return nil
	})
}

type planChangeCmd struct {
	Code      string  `arg:"" help:"The plan's code."`
	Name      *string `help:"As people read it." placeholder:"NAME"`
	Price     *string `help:"What it costs from now on, renewals too, such as 9.90EUR." placeholder:"AMOUNT"`
	Withdrawn *bool   `help:"Whether it is sold no more; what was bought runs on and is renewed." placeholder:"true|false"`
}

// Run changes how a plan is sold.
func (c *planChangeCmd) Run(ctx context.Context, g *Globals) error {
	if *c == (planChangeCmd{Code: c.Code}) {
		return usage("nothing to change was given; see: simwarden plan change --help. Another allowance or validity is another plan")
	}
	change := api.PlanChange{Name: c.Name, Withdrawn: c.Withdrawn}
	if c.Price != nil {
		price, err := ledger.Parse(*c.Price)
		if err != nil {
			return err
		}
		change.Price = &price
	}
	return g.with(ctx, func(e *env) error {
		p, err := e.ChangePlan(ctx, c.Code, change, actor())
		if err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, p)
		}
		fmt.Fprintf(g.Out, "Plan %s is changed: %s.\n", p.Code, saleText(p))
		return nil
	})
}

// saleText says how a plan is sold.
func saleText(p simwarden.Plan) string {
	if !p.WithdrawnAt.IsZero() {
		return "withdrawn from sale"
	}
	if price := priceText(p); price != "" {
		return "sold for " + price
	}
	return "sold without a price"
}

type subscribeCmd struct {
	ICCID string `arg:"" help:"The SIM's ICCID."`
	Plan  string `arg:"" help:"The plan's code."`
	purchaseFlags
}

// Run buys or queues a plan.
func (c *subscribeCmd) Run(ctx context.Context, g *Globals) error {
	return g.with(ctx, func(e *env) error {
		b, err := e.Subscribe(ctx, c.ICCID, c.purchase(c.Plan), actor())
		if err != nil {
			return err
		}
		return g.subscription(e, b)
	})
}

type refundCmd struct {
	ID     int64  `arg:"" help:"The subscription's number; see: simwarden explain ICCID."`
	Reason string `required:"" help:"Why; kept in the audit log."`
	refundFlags
}

// Run takes a subscription back, and gives back what was paid (L3).
func (c *refundCmd) Run(ctx context.Context, g *Globals) error {
	return g.with(ctx, func(e *env) error {
		t, err := c.takeback(simwarden.SubscriptionID(c.ID), c.Reason)
		if err != nil {
			return err
		}
		b, err := e.Refund(ctx, t, actor())
		if err != nil {
			return err
		}
		return g.takenBack(e, b)
	})
}

type cancelCmd struct {
	ID        int64  `arg:"" help:"The subscription's number; see: simwarden explain ICCID."`
	Reason    string `required:"" help:"Why; kept in the audit log."`
	KeepMoney bool   `help:"Give nothing back of what was paid."`
	Key       string `help:"An idempotency key: the same request with the same key happens once."`
}

// Run cancels a subscription that has not begun.
func (c *cancelCmd) Run(ctx context.Context, g *Globals) error {
	return g.with(ctx, func(e *env) error {
		b, err := e.Refund(ctx, api.Takeback{SubscriptionID: simwarden.SubscriptionID(c.ID), Cancel: true, KeepMoney: c.KeepMoney, Reason: c.Reason, Key: c.Key}, actor())
		if err != nil {
			return err
		}
		return g.takenBack(e, b)
	})
}

// beginsWith is what a queued subscription begins with, in words.
func beginsWith(b simwarden.Subscription, now time.Time) string {
	what := "when the current plan ends"
	if _, may := b.MayBegin(now); !may {
		what = map[simwarden.Activation]string{
			simwarden.ActivateFirstUse: "with its first use", simwarden.ActivateRealName: "when its real name is verified"}[b.Activation]
	}
	if !b.ActivateBy.IsZero() {
		what += ", " + when(b.ActivateBy, now) + " at the latest"
	}
	return what
}

func (g *Globals) subscription(e *env, b simwarden.Subscription) error {
	if g.JSON {
		return printJSON(g.Out, b)
	}
	switch b.State {
	case simwarden.SubscriptionQueued:
		fmt.Fprintf(g.Out, "Subscription %d (%s) is queued: it begins %s.\n", b.ID, b.PlanCode, beginsWith(b, e.Store.Now()))
	case simwarden.SubscriptionActive, simwarden.SubscriptionExhausted:
		fmt.Fprintf(g.Out, "Subscription %d (%s) is %s until %s.\n", b.ID, b.PlanCode, b.State, when(b.EndAt, e.Store.Now()))
	default:
		fmt.Fprintf(g.Out, "Subscription %d (%s) is %s.\n", b.ID, b.PlanCode, b.State)
	}
	return nil
}
