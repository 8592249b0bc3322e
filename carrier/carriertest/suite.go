// Package carriertest judges drivers: one suite that every driver passes, against its carrier as
// the lab plays it over a real loopback connection, and against the carrier's own definition.
package carriertest

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/clock"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/lab"
)

// Suite is what a driver's test says of the driver.
type Suite struct {
	Driver carrier.Driver
	// Dialect is the lab's name of the carrier's dialect.
	Dialect  string
	Settings map[string]string
	// Definition is the file of the carrier's own OpenAPI definition; empty where there is none.
	Definition string
	// Words are the carrier's state words, and how a SIM in each must read.
	Words map[string]simwarden.StateReading
	// Tokens says that the driver logs in.
	Tokens bool
	// Delayed says that the carrier shows a change that it has taken and not made yet as pending.
	Delayed bool
	// Inside says how the carrier words its errors where it answers them with HTTP 200; nil for one
	// that answers them by HTTP status.
	Inside *Envelope
	// RealNames are the lab's words for real-name statuses, and how each must read; for drivers that
	// read them.
	RealNames map[string]simwarden.RealName
}

// Envelope is how a carrier answers that says everything within HTTP 200.
type Envelope struct {
	// Login is a good login's answer with the token "canary-token-value".
	Login string
	// Refusal is the answer that refuses with these words; the message is to be put into JSON.
	Refusal func(message string) string
}

// refusedStatus is the HTTP status of the carrier's own refusals, of which one by HTTP would be status.
func (s Suite) refusedStatus(status int) int {
	if s.Inside != nil {
		return http.StatusOK
	}
	return status
}

// startAt is when the lab's time begins: in the middle of a month, not on a full second.
var startAt = time.Date(2026, time.March, 14, 9, 26, 53, 589_793_000, time.UTC)

type check struct {
	name string
	do   func(*testing.T, Suite)
}

// Run runs every check as a subtest that names its rule. Checks of what the driver cannot do are
// left out of the run, not skipped.
func Run(t *testing.T, s Suite) {
	for _, checks := range [][]check{declarations(), states(), commands(), reads(s), batches(s), jobs(s), limits(s), faults(s), secrets(), tokens(s)} {
		for _, c := range checks {
			t.Run(c.name, func(t *testing.T) { c.do(t, s) })
		}
	}
}

// bench is a driver's connection to one account of a lab of its own.
type bench struct {
	t       *testing.T
	s       Suite
	info    carrier.Info
	rules   *rules.RuleSet
	clock   *clock.Manual
	world   *lab.World
	account *lab.Account
	doer    *Doer
	conn    carrier.Conn
}

func (s Suite) open(t *testing.T, spec lab.AccountSpec) *bench {
	t.Helper()
	b := &bench{t: t, s: s, info: s.Driver.Info(), clock: clock.NewManual(startAt)}
	b.world = lab.New(lab.Config{Clock: b.clock, Seed: 20260314})
	server, err := b.world.Serve(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.world.Close()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	spec.Name, spec.Dialect = "acct", s.Dialect
	if b.account, err = b.world.AddAccount(spec); err != nil {
		t.Fatal(err)
	}
	if b.rules, err = rules.NewRuleSet(b.info.Rules); err != nil {
		t.Fatal(err)
	}
	b.doer = newDoer(t)
	t.Cleanup(b.doer.Close)
	base := b.account.BaseURL(server.URL)
	if s.Definition != "" {
		b.doer.contract = newContract(t, s.Definition, base)
	}
	b.conn, err = s.Driver.Open(carrier.Config{
		BaseURL: base, Credentials: b.account.Credentials(), Settings: s.Settings,
		HTTP: b.doer, Now: b.clock.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// sim adds a SIM in the state and gives what a caller would know of it.
func (b *bench) sim(state simwarden.State) carrier.SIMRef {
	b.t.Helper()
	truth, err := b.account.AddSIM(lab.NewSIM{State: state})
	if err != nil {
		b.t.Fatal(err)
	}
	return b.ref(truth.ICCID)
}

func (b *bench) ref(iccid string) carrier.SIMRef {
	b.t.Helper()
	id, err := simwarden.ParseICCID(iccid)
	if err != nil {
		b.t.Fatal(err)
	}
	truth := b.truth(iccid)
	msisdn, err := simwarden.ParseMSISDN(truth.MSISDN)
	if err != nil {
		b.t.Fatal(err)
	}
	return carrier.SIMRef{ICCID: id, Key: truth.Key, MSISDN: msisdn}
}

// pause lets the time pass that the carrier wants between two changes of one SIM.
func (b *bench) pause() {
	if b.info.GapOn(simwarden.OpSuspend) || b.info.GapOn(simwarden.OpResume) {
		b.clock.Advance(b.info.PerSIMGap)
	}
}

func (b *bench) truth(iccid string) lab.SIMTruth {
	b.t.Helper()
	truth, ok := b.account.SIM(iccid)
	if !ok {
		b.t.Fatalf("the lab has no SIM %s", iccid)
	}
	return truth
}

// fault switches a fault of the lab on. Answers are then no longer held against the definition.
func (b *bench) fault(f lab.Fault) {
	b.t.Helper()
	b.doer.contract = nil
	if _, err := b.world.SetFault(f); err != nil {
		b.t.Fatal(err)
	}
}

// changes counts the state-changing requests that the lab has seen to their end.
func (b *bench) changes() int {
	n := 0
	for _, line := range b.world.LogLines() {
		if line.Kind == lab.KindChange {
			n++
		}
	}
	return n
}

// failure takes a driver's error apart, and holds it against the rules for all errors.
func (b *bench) failure(err error) *carrier.Error {
	b.t.Helper()
	var e *carrier.Error
	if !errors.As(err, &e) {
		b.t.Fatalf("the driver gave %v (%T), want a *carrier.Error", err, err)
	}
	if !slices.Contains(simwarden.Operations(), e.Operation) {
		b.t.Errorf("the error %q has no operation", err)
	}
	if e.Class != "" {
		b.t.Errorf("the driver set class %s: classes come from the rule table (G6)", e.Class)
	}
	if len(e.Message) > 500 {
		b.t.Errorf("the message has %d bytes, at most 500 are allowed", len(e.Message))
	}
	b.clean(err.Error())
	return e
}

// clean says that a text holds no credential and no URL (V20).
func (b *bench) clean(text string) {
	b.t.Helper()
	if strings.Contains(text, "http://") || strings.Contains(text, "https://") {
		b.t.Errorf("an error holds a URL: %q", text)
	}
	for _, field := range b.info.Credentials {
		value := b.account.Credential(field.Name)
		if field.Secret && value != "" && (strings.Contains(text, value) || strings.Contains(text, url.QueryEscape(value))) {
			b.t.Errorf("an error holds credential %s (V20)", field.Name)
		}
	}
}

func (b *bench) class(e *carrier.Error) carrier.Class { return b.rules.Classify(e).Class }

// list reads a whole list by its pages, as the poller would.
func (b *bench) list(page func(cursor string) (carrier.Page, error)) ([]simwarden.Reading, error) {
	b.t.Helper()
	var all []simwarden.Reading
	cursor := ""
	for range maxPages {
		p, err := page(cursor)
		if err != nil {
			return all, err
		}
		all = append(all, p.Readings...)
		if p.Next == "" {
			return all, nil
		}
		cursor = p.Next
	}
	b.t.Fatalf("the list has no end after %d pages", maxPages)
	return nil, nil
}

const maxPages = 200
