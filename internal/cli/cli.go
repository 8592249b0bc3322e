// Package cli carries out the commands of the program simwarden.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	_ "github.com/simwarden/simwarden/carrier/all" // every driver there is
	"github.com/simwarden/simwarden/internal/api"
	"github.com/simwarden/simwarden/internal/fault"
	"github.com/simwarden/simwarden/internal/plans"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/internal/transfer"
)

// The exit codes, that scripts can trust.
const (
	ExitOK       = 0
	ExitFailed   = 1 // it could not be done; the message says why
	ExitUsage    = 2 // the command line or the input is wrong; nothing was done
	ExitNotFound = 3 // what was named is not there
	ExitFindings = 4 // it was done, and there is something to look at (doctor, diff --exit-code, import)
)

// errFindings makes the exit code ExitFindings; it has been told already.
var errFindings = errors.New("there is something to look at")

// Globals are the flags that every command takes.
type Globals struct {
	DataDir     string `name:"data-dir" env:"SIMWARDEN_DATA" help:"Where the private Postgres and the key file live. Default: /var/lib/simwarden as root, else ~/.local/share/simwarden." placeholder:"DIR" type:"path"`
	DatabaseURL string `name:"database-url" env:"SIMWARDEN_DATABASE_URL" help:"A Postgres of your own (postgres://user@host/database) in place of the private one." placeholder:"URL"`
	JSON        bool   `name:"json" help:"Print JSON."`
	Verbose     bool   `short:"v" help:"Log more, to standard error."`

	Out io.Writer `kong:"-"`
	Err io.Writer `kong:"-"`
	In  io.Reader `kong:"-"`
}

// commands is the command line.
type commands struct {
	Globals

	Serve     serveCmd     `cmd:"" help:"Run simwarden: poll, decide, command, confirm; REST API on 127.0.0.1."`
	Demo      demoCmd      `cmd:"" help:"Show the main job on simulated carriers with faults; needs no configuration."`
	Explain   explainCmd   `cmd:"" help:"Say why a SIM is as it is, what is under way and what happens next."`
	Sims      simsCmd      `cmd:"" help:"List SIMs."`
	Diff      diffCmd      `cmd:"" help:"List what would change now, and why, without changing anything."`
	Sim       simCmd       `cmd:"" help:"Suspend, resume or read one SIM by hand."`
	Bulk      bulkCmd      `cmd:"" help:"Suspend or resume many SIMs: preview, begin, show, cancel."`
	Polling   pollingCmd   `cmd:"" help:"Pause or resume the polling of a SIM."`
	Device    deviceCmd    `cmd:"" help:"Devices: add, bind and unbind SIMs, pause or resume polling, buy plans."`
	Account   accountCmd   `cmd:"" help:"Carrier accounts: add, list, test, observe or act."`
	Group     groupCmd     `cmd:"" help:"Limit groups: list, share, monitor or enforce, limits."`
	Rules     rulesCmd     `cmd:"" help:"Error rules: list, test, add, move, delete."`
	Plan      planCmd      `cmd:"" help:"Plans that are sold."`
	Subscribe subscribeCmd `cmd:"" help:"Buy a plan for a SIM, or queue it behind the current one."`
	Refund    refundCmd    `cmd:"" help:"Take a subscription back."`
	Cancel    cancelCmd    `cmd:"" help:"Cancel a subscription that has not begun."`
	Renewal   renewalCmd   `cmd:"" help:"Say whether a subscription is bought again at its end, from its wallet."`
	Wallet    walletCmd    `cmd:"" help:"Wallets that pay for plans: add, list, show, top up, assign, credit limit."`
	Pool      poolCmd      `cmd:"" help:"Pools, whose members share an allowance: add, list, show, set, top up, members."`
	Margin    marginCmd    `cmd:"" help:"What SIMs earned and what carriers charged for them, by month."`
	Import    importCmd    `cmd:"" help:"Import SIMs, devices, subscriptions or carrier statements from CSV, with a dry run and row errors."`
	Export    exportCmd    `cmd:"" help:"Export SIMs, devices, subscriptions, records or usage as CSV, to standard output."`
	Token     tokenCmd     `cmd:"" help:"Tokens for the REST API."`
	Alerts    alertsCmd    `cmd:"" help:"Open alerts: list, clear."`
	GuardBand guardBandCmd `cmd:"" help:"How often the promises of plans with a guard band were kept."`
	Guard     guardCmd     `cmd:"" help:"What stops lapsing after a step of a clock or a wrong import: list, release."`
	Audit     auditCmd     `cmd:"" help:"What persons did, from the audit log."`
	Retention retentionCmd `cmd:"" help:"How long what grows is kept: list, set."`
	Doctor    doctorCmd    `cmd:"" help:"Check the installation: versions, partitions, clock, disk, keys."`
	Migrate   migrateCmd   `cmd:"" help:"Bring the database's schema up to this version."`
	Lab       labCmd       `cmd:"" help:"Run simulated carriers over HTTP, with faults."`
	Bench     benchCmd     `cmd:"" help:"Measure, and print JSON."`
	Points    pointsCmd    `cmd:"" name:"fault-points" hidden:"" help:"List the named crash points."`
	Version   versionCmd   `cmd:"" help:"Print the version."`
}

// Main runs the program with its arguments and gives the exit code.
func Main(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	c := commands{Globals: Globals{Out: out, Err: errOut, In: in}}
	exit := -1
	parser, err := kong.New(&c, kong.Name("simwarden"),
		kong.Description("Keeps every SIM of an IoT fleet in the state it should be in, across carriers, and can always say why."),
		kong.UsageOnError(), kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Writers(out, errOut), kong.Exit(func(code int) { exit = code }),
		kong.Help(helpThenExit))
	if err != nil {
		fmt.Fprintln(errOut, "simwarden:", err)
		return ExitFailed
	}
	kctx, err := parser.Parse(args)
	if exit >= 0 { // --help has printed
		return exit
	}
	if err != nil {
		fmt.Fprintf(errOut, "simwarden: %v\nSee: %s --help\n", err, named(err))
		return ExitUsage
	}
	if err := fault.ArmFromEnv(); err != nil {
		fmt.Fprintln(errOut, "simwarden:", err)
		return ExitUsage
	}
	kctx.BindTo(ctx, (*context.Context)(nil))
	return exitCode(kctx.Run(&c.Globals), errOut)
}

// named is the command that the error is about, as far as it was understood.
func named(err error) string {
	var parse *kong.ParseError
	if !errors.As(err, &parse) || parse.Context == nil {
		return "simwarden"
	}
	words := []string{"simwarden"}
	for _, step := range parse.Context.Path {
		if step.Command != nil {
			words = append(words, step.Command.Name)
		}
	}
	return strings.Join(words, " ")
}

func helpThenExit(options kong.HelpOptions, ctx *kong.Context) error {
	return kong.DefaultHelpPrinter(options, ctx)
}

// inputErrors are about what was typed or given: nothing was done.
var inputErrors = []error{
	api.ErrBadInput, store.ErrURL, store.ErrAmbiguousICCID, store.ErrKeepTime, transfer.ErrFile,
	plans.ErrPlanInvalid, plans.ErrPoolInvalid, plans.ErrWithdrawn, plans.ErrBegun, plans.ErrEndedAlready,
	store.ErrAccountExists, store.ErrLimitGroupExists, store.ErrPlanExists, store.ErrPoolExists, store.ErrRuleExists,
}

// exitCode tells the error, if any, and gives its exit code.
func exitCode(err error, errOut io.Writer) int {
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, errFindings):
		return ExitFindings
	}
	fmt.Fprintln(errOut, "simwarden:", told(err)+databaseAdvice(err)+directoryAdvice(err)+notFoundAdvice(err))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return ExitNotFound
	case isAboutMoney(err), slices.ContainsFunc(inputErrors, func(target error) bool { return errors.Is(err, target) }):
		return ExitUsage
	}
	return ExitFailed
}

// actor names who runs the command, for records and the audit log.
func actor() string {
	if name := os.Getenv("SUDO_USER"); name != "" {
		return "cli:" + name
	}
	if u, err := user.Current(); err == nil {
		return "cli:" + u.Username
	}
	return "cli:unknown"
}
