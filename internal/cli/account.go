package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/api"
	"github.com/simwarden/simwarden/internal/secret"
	"github.com/simwarden/simwarden/internal/store"
)

type accountCmd struct {
	Add         accountAddCmd         `cmd:"" help:"Add an account. It starts in observe mode: nothing is sent."`
	List        accountListCmd        `cmd:"" help:"List the accounts."`
	Test        accountTestCmd        `cmd:"" help:"Ask the carrier something harmless with the account's credentials."`
	Mode        accountModeCmd        `cmd:"" help:"observe: record what would be sent; act: send it."`
	Set         accountSetCmd         `cmd:"" help:"Change intervals, freshness, policies and the safety brake."`
	Progress    accountProgressCmd    `cmd:"" help:"Show how far evaluations of all the account's SIMs have come."`
	Credentials accountCredentialsCmd `cmd:"" help:"Give the account new credentials."`
	Release     accountReleaseCmd     `cmd:"" help:"Release the safety brake."`
	Start       accountStartCmd       `cmd:"" help:"Let calls go on that an authentication failure has stopped."`
	Drivers     accountDriversCmd     `cmd:"" help:"List the carriers that can be spoken to, with the credentials they need."`
}

// credentialFlags are credentials on a command line: better from a file or standard input.
type credentialFlags struct {
	Credential map[string]string `help:"A credential as NAME=VALUE, NAME=@FILE to read it from a file, or NAME=- to read it from standard input. See: simwarden account drivers." placeholder:"NAME=VALUE"`
}

const maxCredentialBytes = 64 << 10

func (f credentialFlags) read(g *Globals) (map[string]secret.Secret, error) {
	out := map[string]secret.Secret{}
	for name, value := range f.Credential {
		switch {
		case value == "-":
			b, err := io.ReadAll(io.LimitReader(g.In, maxCredentialBytes))
			if err != nil {
				return nil, fmt.Errorf("read credential %s from standard input: %w", name, err)
			}
			value = strings.TrimRight(string(b), "\r\n")
		case strings.HasPrefix(value, "@"):
			b, err := os.ReadFile(value[1:])
			if err != nil {
				return nil, usage("read credential %s: %v", name, err)
			}
			value = strings.TrimRight(string(b), "\r\n")
		}
		out[name] = secret.New(value)
	}
	return out, nil
}

type accountAddCmd struct {
	Name             string            `arg:"" help:"How you call it."`
	Driver           string            `required:"" help:"Which carrier. See: simwarden account drivers."`
	BaseURL          string            `help:"The API's root, where it is not the carrier's usual one." placeholder:"URL"`
	Zone             string            `help:"IANA time zone of the account." default:"UTC"`
	Group            string            `help:"Limit group to share with other accounts; default: one of its own."`
	Setting          map[string]string `help:"A setting of the driver as NAME=VALUE." placeholder:"NAME=VALUE"`
	RealnameRequired bool              `help:"SIMs that are not verified by real name are suspended."`
	StateEvery       time.Duration     `help:"How often each SIM's state is read." default:"1h"`
	UsageEvery       time.Duration     `help:"How often each SIM's usage is read." default:"1h"`
	FreshFor         time.Duration     `help:"How old facts may be when something is sent." default:"15m"`
	credentialFlags
}

// Run adds an account (C9: observing; B10: credentials sealed).
func (c *accountAddCmd) Run(ctx context.Context, g *Globals) error {
	credentials, err := c.read(g)
	if err != nil {
		return err
	}
	return g.with(ctx, func(e *env) error {
		a, err := e.AddAccount(ctx, api.NewAccount{
			Name: c.Name, Driver: c.Driver, BaseURL: c.BaseURL, Zone: c.Zone, LimitGroup: c.Group, Settings: c.Setting, Credentials: credentials,
			RealNameRequired: c.RealnameRequired, StateEvery: c.StateEvery, UsageEvery: c.UsageEvery, FreshFor: c.FreshFor,
		}, actor())
		if err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, a)
		}
		fmt.Fprintf(g.Out, "Account %s is added, in observe mode: nothing is sent until you say: simwarden account mode %s act\nTry it: simwarden account test %s\n", a.Name, a.Name, a.Name)
		c.warn(g)
		return nil
	})
}

// warn says what the account's settings will do that nobody may have meant.
func (c *accountAddCmd) warn(g *Globals) { warnRealName(g, c.Driver, c.RealnameRequired) }

func warnRealName(g *Globals, driver string, required bool) {
	d, err := carrier.Lookup(driver)
	if err != nil || !required || slices.Contains(d.Info().Reads, simwarden.CheckRealName) {
		return
	}
	fmt.Fprintf(g.Out, "Warning: %s cannot read real-name status, and unread counts as not verified: in act mode, all SIMs of this account that have had a plan will be suspended.\n", d.Info().Title)
}

type accountListCmd struct{}

// Run lists the accounts.
func (c *accountListCmd) Run(ctx context.Context, g *Globals) error {
	return g.with(ctx, func(e *env) error {
		accounts, err := e.Accounts(ctx)
		if err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, accounts)
		}
		t := newTable("NAME", "DRIVER", "MODE", "STATE EVERY", "USAGE EVERY", "NOTE")
		for _, a := range accounts {
			t.add(a.Name, a.Driver, string(a.Mode), a.StateEvery.String(), a.UsageEvery.String(), accountNote(a))
		}
		t.print(g.Out)
		return nil
	})
}

func accountNote(a store.Account) string {
	var notes []string
	if !a.StoppedAt.IsZero() {
		notes = append(notes, "stopped: "+a.StoppedBecause)
	}
	if !a.BrakedAt.IsZero() {
		notes = append(notes, "safety brake: "+a.BrakedBecause)
	}
	for _, r := range a.Rests {
		notes = append(notes, fmt.Sprintf("%ss rest since %s, next tried at %s: %s", r.Direction, r.SinceAt.Format(time.RFC3339), r.ProbeAt.Format(time.RFC3339), r.Because))
	}
	for _, b := range a.Breakers {
		notes = append(notes, fmt.Sprintf("the carrier keeps failing: resting since %s, next probe at %s, because: %s",
			b.SinceAt.Format(time.RFC3339), b.ProbeAt.Format(time.RFC3339), clean(b.Because, 160)))
	}
	return strings.Join(notes, "; ")
}

type accountTestCmd struct {
	Name     string `arg:"" help:"The account."`
	AllowLab bool   `help:"Allow a carrier on this machine (127.0.0.1), for a lab."`
}

// Run asks the carrier something harmless.
func (c *accountTestCmd) Run(ctx context.Context, g *Globals) error {
	return g.with(ctx, func(e *env) error {
		asker, err := e.asker(ctx, g, c.AllowLab)
		if err != nil {
			return err
		}
		e.Asker = asker
		a, err := e.TestAccount(ctx, c.Name, actor())
		if err != nil {
			return err
		}
		if err := errors.Join(a.Err, asker.Close(ctx)); err != nil {
			if a.Advice != "" {
				a.Advice = "\n" + a.Advice
			}
			return fmt.Errorf("account %s: %w%s", c.Name, err, a.Advice)
		}
		if g.JSON {
			return printJSON(g.Out, a)
		}
		fmt.Fprintf(g.Out, "Account %s works: the carrier took its credentials.\n", a.Account)
		return nil
	})
}

type accountModeCmd struct {
	Name string `arg:"" help:"The account."`
	Mode string `arg:"" help:"observe or act." enum:"observe,act"`
}

// Run switches between observe and act (C9).
func (c *accountModeCmd) Run(ctx context.Context, g *Globals) error {
	mode := simwarden.AccountMode(c.Mode)
	return g.changeAccount(ctx, c.Name, api.AccountChange{Mode: &mode}, "is in mode "+c.Mode)
}

type accountSetCmd struct {
	Name             string         `arg:"" help:"The account."`
	StateEvery       *time.Duration `help:"How often each SIM's state is read." placeholder:"DURATION"`
	UsageEvery       *time.Duration `help:"How often each SIM's usage is read." placeholder:"DURATION"`
	RealnameEvery    *time.Duration `help:"How often each SIM's real-name status is read, where the carrier tells it." placeholder:"DURATION"`
	Unplanned        *string        `help:"What becomes of SIMs that never had a main plan: leave or suspend." enum:"leave,suspend" placeholder:"leave|suspend"`
	DriftPolicy      *string        `help:"What becomes of SIMs that were changed outside: enforce, alert or adopt (take it for a manual action)." enum:"enforce,alert,adopt" placeholder:"enforce|alert|adopt"`
	FreshFor         *time.Duration `help:"How old facts may be when something is sent." placeholder:"DURATION"`
	BrakePercent     *int           `help:"Automatic suspends in a window, in percent of the active SIMs, that put the brake on." placeholder:"N"`
	BrakeCount       *int           `help:"The least number of them that puts it on." placeholder:"N"`
	BrakeWindow      *time.Duration `help:"The brake's window." placeholder:"DURATION"`
	CheckChanges     *int           `name:"check-changes-per-day" help:"How often in 24 hours checks alone may resume a SIM that is found suspended again, or suspend one, one fewer; 0: no bound." placeholder:"N"`
	Dwell            *time.Duration `help:"The least time from a resume to a suspend that checks alone ask for; 0: none." placeholder:"DURATION"`
	RenewalLead      *time.Duration `help:"How long before its end a plan is bought again, where it is, for a carrier that has to be told early; 0: at its end." placeholder:"DURATION"`
	CarrierLimits    *bool          `help:"Whether the carrier holds a data limit for each SIM, equal to what its plan allows, where it can." placeholder:"true|false"`
	RealnameRequired *bool          `help:"Whether SIMs that are not verified by real name are suspended; a change has all SIMs of the account judged." placeholder:"true|false"`
}

// Run changes settings of an account.
func (c *accountSetCmd) Run(ctx context.Context, g *Globals) error {
	change := api.AccountChange{StateEvery: c.StateEvery, UsageEvery: c.UsageEvery, RealNameEvery: c.RealnameEvery, FreshFor: c.FreshFor,
		Unplanned: (*simwarden.UnplannedPolicy)(c.Unplanned), DriftPolicy: (*simwarden.DriftPolicy)(c.DriftPolicy),
		BrakePercent: c.BrakePercent, BrakeCount: c.BrakeCount, BrakeWindow: c.BrakeWindow, RenewalLead: c.RenewalLead, CheckChangesPerDay: c.CheckChanges, Dwell: c.Dwell, CarrierLimits: c.CarrierLimits, RealNameRequired: c.RealnameRequired}
	if *c == (accountSetCmd{Name: c.Name}) {
		return usage("nothing to change was given; see: simwarden account set --help")
	}
	return g.changeAccount(ctx, c.Name, change, "is changed")
}

type accountCredentialsCmd struct {
	Name string `arg:"" help:"The account."`
	credentialFlags
}

// Run replaces an account's credentials (B10).
func (c *accountCredentialsCmd) Run(ctx context.Context, g *Globals) error {
	if len(c.Credential) == 0 {
		return usage("no credential was given; see: simwarden account drivers")
	}
	credentials, err := c.read(g)
	if err != nil {
		return err
	}
	return g.changeAccount(ctx, c.Name, api.AccountChange{Credentials: credentials}, "has new credentials")
}

func (g *Globals) changeAccount(ctx context.Context, name string, change api.AccountChange, what string) error {
	return g.with(ctx, func(e *env) error {
		a, err := e.ChangeAccount(ctx, name, change, actor())
		if err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, a)
		}
		fmt.Fprintf(g.Out, "Account %s %s.\n", a.Name, what)
		if change.RealNameRequired != nil {
			warnRealName(g, a.Driver, a.RealNameRequired)
			fmt.Fprintf(g.Out, "Its SIMs are judged in the background: simwarden account progress %s\n", a.Name)
		}
		return nil
	})
}

type accountReleaseCmd struct {
	Name   string `arg:"" help:"The account."`
	Reason string `required:"" help:"Why; kept in the audit log."`
}

// Run releases the safety brake (C10).
func (c *accountReleaseCmd) Run(ctx context.Context, g *Globals) error {
	return g.liftAccount(ctx, "The safety brake of %s is released.", "The safety brake of %s was not on.", func(e *env) (store.Account, bool, error) {
		return e.ReleaseBrake(ctx, c.Name, actor(), c.Reason)
	})
}

type accountStartCmd struct {
	Name   string `arg:"" help:"The account."`
	Reason string `required:"" help:"Why; kept in the audit log."`
}

// Run lets a stopped account's calls go on (G8).
func (c *accountStartCmd) Run(ctx context.Context, g *Globals) error {
	return g.liftAccount(ctx, "The calls of %s go on.", "The calls of %s were not stopped.", func(e *env) (store.Account, bool, error) {
		return e.StartAccount(ctx, c.Name, actor(), c.Reason)
	})
}

func (g *Globals) liftAccount(ctx context.Context, done, already string, lift func(*env) (store.Account, bool, error)) error {
	return g.with(ctx, func(e *env) error {
		a, was, err := lift(e)
		switch {
		case err != nil:
			return err
		case g.JSON:
			return printJSON(g.Out, map[string]any{"account": a, "changed": was})
		case was:
			fmt.Fprintf(g.Out, done+"\n", a.Name)
		default:
			fmt.Fprintf(g.Out, already+"\n", a.Name)
		}
		return nil
	})
}

type accountDriversCmd struct{}

// Run lists the drivers.
func (c *accountDriversCmd) Run(_ context.Context, g *Globals) error {
	var infos []carrier.Info
	for _, name := range carrier.Names() {
		d, err := carrier.Lookup(name)
		if err != nil {
			return err
		}
		infos = append(infos, d.Info())
	}
	if g.JSON {
		return printJSON(g.Out, infos)
	}
	for _, i := range infos {
		fmt.Fprintf(g.Out, "%s  %s, %s\n", i.Name, i.Title, i.DefaultBaseURL)
		printFields(g.Out, "--credential", i.Credentials)
		printFields(g.Out, "--setting", i.Settings)
	}
	return nil
}

func printFields(w io.Writer, flag string, fields []carrier.Field) {
	for _, f := range fields {
		need := map[bool]string{true: "required", false: "optional"}[f.Required]
		fmt.Fprintf(w, "  %-12s %-14s %s; %s\n", flag, f.Name, need, f.Help)
	}
}
