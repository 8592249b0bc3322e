package carriertest

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/lab"
)

// reads gives the checks of what the driver can do; the connection tells by its type.
func reads(s Suite) []check {
	out := []check{
		{"G1: every call's requests carry the call's operation", operations},
		{"a probe succeeds with good credentials and is auth with refused ones (F35)", probes},
	}
	conn := s.capabilities()
	if _, ok := conn.(carrier.Lister); ok {
		out = append(out,
			check{"P7: a list is complete over its pages, each SIM once", listIsComplete},
			check{"F32: a SIM missing in a list is missing, not terminated, and a bad list ends", listFaults})
	}
	if _, ok := conn.(carrier.UsageReader); ok {
		out = append(out, check{"U1: usage is in bytes, from the period's start, and grows", usageIsExact})
	}
	if _, ok := conn.(carrier.RealNameReader); ok {
		out = append(out, check{"E2: every real-name word reads as its status, with the raw word beside it", readsRealNames})
	}
	if _, ok := conn.(carrier.UsageLister); ok {
		out = append(out, check{"U1, P7: the usage list is complete, also across a month's end", usageList})
	}
	return out
}

// capabilities opens a connection that is never used, to see what it can do. Whatever a driver
// wants for credentials, it gets something.
func (s Suite) capabilities() carrier.Conn {
	credentials := make(map[string]string)
	for _, f := range s.Driver.Info().Credentials {
		credentials[f.Name] = "unusedButThere"
	}
	conn, err := s.Driver.Open(carrier.Config{Credentials: credentials, Settings: s.Settings, Now: time.Now})
	if err != nil {
		panic(fmt.Sprintf("carriertest: open a connection to see what it can do: %v", err))
	}
	return conn
}

func operations(t *testing.T, s Suite) {
	b := s.open(t, lab.AccountSpec{})
	sim := b.sim(simwarden.StateActive)
	type call struct {
		want simwarden.Operation
		do   func() error
	}
	calls := []call{
		{simwarden.OpQueryState, func() error { _, err := b.conn.State(t.Context(), sim); return err }},
		{simwarden.OpSuspend, func() error { _, err := b.conn.Suspend(t.Context(), sim); return err }},
		{simwarden.OpResume, func() error { b.pause(); _, err := b.conn.Resume(t.Context(), sim); return err }},
	}
	if c, ok := b.conn.(carrier.Lister); ok {
		calls = append(calls, call{simwarden.OpListSIMs, func() error { _, err := c.List(t.Context(), ""); return err }})
	}
	if c, ok := b.conn.(carrier.UsageReader); ok {
		calls = append(calls, call{simwarden.OpQueryUsage, func() error { _, err := c.Usage(t.Context(), sim); return err }})
	}
	if c, ok := b.conn.(carrier.UsageLister); ok {
		calls = append(calls, call{simwarden.OpListUsage, func() error { _, err := c.ListUsage(t.Context(), ""); return err }})
	}
	if c, ok := b.conn.(carrier.RealNameReader); ok {
		calls = append(calls, call{simwarden.OpQueryRealName, func() error { _, err := c.RealName(t.Context(), sim); return err }})
	}
	for i, call := range calls {
		if err := call.do(); err != nil {
			t.Fatalf("%s: %v", call.want, b.failure(err))
		}
		sent := b.doer.take()
		if i == 0 && s.Tokens {
			if len(sent) == 0 || sent[0] != simwarden.OpToken {
				t.Fatalf("the first call sent %v: a login is operation token", sent)
			}
			sent = sent[1:]
		}
		if !slices.Equal(sent, []simwarden.Operation{call.want}) {
			t.Errorf("%s sent requests of operations %v", call.want, sent)
		}
	}
	for _, line := range b.world.LogLines() {
		if line.Answer != lab.AnswerOK {
			t.Errorf("the lab answered %s with %s", line.Operation, line.Answer)
		}
	}
}

func probes(t *testing.T, s Suite) {
	b := s.open(t, lab.AccountSpec{})
	b.sim(simwarden.StateActive)
	if err := b.conn.Probe(t.Context()); err != nil {
		t.Fatal(b.failure(err))
	}
	b.fault(lab.Fault{Name: lab.AuthFail})
	err := b.conn.Probe(t.Context())
	if err == nil {
		t.Fatal("refused credentials pass the probe")
	}
	if e := b.failure(err); b.class(e) != carrier.ClassAuth || e.TokenExpired {
		t.Errorf("refused credentials are %s (%v), token expired: %v; want auth", b.class(e), e, e.TokenExpired)
	}
}

// fleet is SIMs in all states that a lab's account can have.
func (b *bench) fleet(n int) {
	b.t.Helper()
	if _, err := b.account.Populate(lab.Population{Count: n, ActiveShare: 0.5, InventoryShare: 0.2, Age: 48 * time.Hour}); err != nil {
		b.t.Fatal(err)
	}
}

func listIsComplete(t *testing.T, s Suite) {
	for _, spec := range []lab.AccountSpec{{PageSize: 7}, {PageSize: 10, ShortPages: true}, {}} {
		b := s.open(t, spec)
		lister := b.conn.(carrier.Lister)
		empty, err := b.list(func(c string) (carrier.Page, error) { return lister.List(t.Context(), c) })
		if err != nil || len(empty) != 0 {
			t.Errorf("the list of an account without SIMs has %d, %v", len(empty), err)
		}
		const n = 64
		b.fleet(n)
		readings, err := b.list(func(c string) (carrier.Page, error) { return lister.List(t.Context(), c) })
		if err != nil {
			t.Fatal(b.failure(err))
		}
		seen := make(map[string]bool)
		for _, r := range readings {
			if seen[r.Key] {
				t.Errorf("SIM %s is listed twice", r.Key)
			}
			seen[r.Key] = true
			truth := b.truth(r.Key)
			if b.info.ListNamesOnly {
				if r.State != nil {
					t.Errorf("SIM %s is listed as %+v by a list that is said to tell no states", r.Key, r.State)
				}
			} else if r.State == nil || r.State.State != truth.State || r.State.Raw != truth.Raw {
				t.Errorf("SIM %s is listed as %+v, is %s", r.Key, r.State, truth.Raw)
			}
			if r.ICCID.String() != truth.ICCID || r.Key != truth.Key || !r.ReadAt.Equal(b.clock.Now()) {
				t.Errorf("SIM %s (%s) is listed as %s (%s), read at %v", truth.ICCID, truth.Key, r.ICCID, r.Key, r.ReadAt)
			}
		}
		if len(seen) != n {
			t.Errorf("pages of %d (short: %v) list %d of %d SIMs", spec.PageSize, spec.ShortPages, len(seen), n)
		}
	}
}

func listFaults(t *testing.T, s Suite) {
	for _, name := range []string{lab.ListMissing, lab.ListShort, lab.ListEmpty, lab.ListRepeat} {
		b := s.open(t, lab.AccountSpec{PageSize: 8})
		b.fleet(40)
		b.fault(lab.Fault{Name: name, Count: 3})
		lister := b.conn.(carrier.Lister)
		readings, err := b.list(func(c string) (carrier.Page, error) { return lister.List(t.Context(), c) })
		if err != nil {
			_ = b.failure(err) // an error is a fine answer to a bad list
		}
		for _, r := range readings {
			truth := b.truth(r.Key)
			if !b.info.ListNamesOnly && (r.State == nil || r.State.State != truth.State) {
				t.Errorf("%s: SIM %s is listed as %+v, is %s", name, r.Key, r.State, truth.State)
			}
		}
	}
}

func usageIsExact(t *testing.T, s Suite) {
	b := s.open(t, lab.AccountSpec{})
	sim := b.sim(simwarden.StateActive)
	reader := b.conn.(carrier.UsageReader)
	zone := b.zone()
	// A platform that counts once a day would still show yesterday's figure: the state tells which.
	if _, err := b.conn.State(t.Context(), sim); err != nil {
		t.Fatal(b.failure(err))
	}
	var last int64
	for _, used := range []int64{0, 1, 123_456_789, 123_456_790, 7 << 40} {
		if err := b.account.SetUsage(sim.ICCID.String(), used); err != nil {
			t.Fatal(err)
		}
		b.clock.Advance(2 * time.Second)
		reading, err := reader.Usage(t.Context(), sim)
		if err != nil {
			t.Fatal(b.failure(err))
		}
		got := reading.Usage
		want := used - used%b.info.Usage.UnitBytes // of a unit begun, nothing is told
		if got == nil || got.CounterBytes != want || got.CounterBytes < last {
			t.Fatalf("after %d bytes the usage reads as %+v (U1)", used, got)
		}
		last = got.CounterBytes
		wantStart, wantEnd := carrier.MonthIn(b.clock.Now(), zone)
		if b.info.Usage.Period == simwarden.ResetCalendarMonth && (!got.PeriodStartAt.Equal(wantStart) || !got.PeriodEndAt.Equal(wantEnd)) {
			t.Errorf("the period is %v to %v, want the month from %v", got.PeriodStartAt, got.PeriodEndAt, wantStart)
		}
		if reading.State != nil || reading.RealName != nil {
			t.Errorf("a usage answer says nothing of the state, read %+v", reading)
		}
		if reading.Key != sim.Key {
			t.Errorf("the usage is SIM %s's, want %s", reading.Key, sim.Key)
		}
	}
	nextMonth := time.Date(2026, time.April, 1, 0, 0, 30, 0, zone)
	b.clock.Set(nextMonth)
	reading, err := reader.Usage(t.Context(), sim)
	if err != nil {
		t.Fatal(b.failure(err))
	}
	if reading.Usage.CounterBytes != 0 || reading.Usage.PeriodStartAt.In(zone).Month() != time.April {
		t.Errorf("in the new month the usage reads as %+v, want 0 bytes from 1 April", *reading.Usage)
	}
	if _, err := reader.Usage(t.Context(), carrier.SIMRef{ICCID: sim.ICCID}); err != nil {
		t.Errorf("usage of a SIM whose key is not known: %v", b.failure(err))
	}
}

// zone is the one in which the carrier's usage turns.
func (b *bench) zone() *time.Location {
	b.t.Helper()
	zone, err := time.LoadLocation(b.info.Usage.Zone)
	if err != nil {
		b.t.Fatal(err)
	}
	return zone
}

func readsRealNames(t *testing.T, s Suite) {
	b := s.open(t, lab.AccountSpec{})
	sim := b.sim(simwarden.StateActive)
	reader := b.conn.(carrier.RealNameReader)
	seen := make(map[simwarden.RealName]bool)
	for _, word := range slices.Sorted(maps.Keys(s.RealNames)) {
		want := s.RealNames[word]
		if err := b.account.SetRealName(sim.ICCID.String(), word); err != nil {
			t.Fatal(err)
		}
		reading, err := reader.RealName(t.Context(), sim)
		if err != nil {
			t.Fatalf("read a SIM with real-name status %q: %v", word, b.failure(err))
		}
		if got := reading.RealName; got == nil || got.Status != want || got.Raw != word || reading.State != nil || reading.Usage != nil {
			t.Errorf("%q reads as %+v, want %s and nothing else", word, reading, want)
		}
		if reading.Key != sim.Key || !reading.ReadAt.Equal(b.clock.Now()) {
			t.Errorf("the status is SIM %s's, read at %v", reading.Key, reading.ReadAt)
		}
		seen[want] = true
	}
	for _, must := range []simwarden.RealName{simwarden.RealNameVerified, simwarden.RealNameUnverified} {
		if !seen[must] {
			t.Errorf("no word of the carrier was read as %s", must)
		}
	}
	stranger := s.stranger(t)
	if _, err := reader.RealName(t.Context(), stranger); err == nil || b.class(b.failure(err)) != carrier.ClassNotFound {
		t.Errorf("the real-name status of an unknown SIM: %v, want not_found", err)
	}
}

func usageList(t *testing.T, s Suite) {
	b := s.open(t, lab.AccountSpec{PageSize: 6})
	lister := b.conn.(carrier.UsageLister)
	want := make(map[string]int64)
	for i := range int64(30) {
		sim := b.sim(simwarden.StateActive)
		used := i * 1_000_003
		if err := b.account.SetUsage(sim.ICCID.String(), used); err != nil {
			t.Fatal(err)
		}
		want[sim.Key] = used
	}
	b.clock.Set(time.Date(2026, time.March, 31, 23, 59, 50, 0, time.UTC))
	march, _ := carrier.MonthUTC(b.clock.Now())
	pages := 0
	readings, err := b.list(func(c string) (carrier.Page, error) {
		if pages++; pages == 2 {
			b.clock.Advance(time.Minute) // into April
		}
		return lister.ListUsage(t.Context(), c)
	})
	if err != nil {
		t.Fatal(b.failure(err))
	}
	if pages < 2 {
		t.Fatalf("the list came in %d pages: the check has no month's end within", pages)
	}
	got := make(map[string]int64)
	for _, r := range readings {
		if _, twice := got[r.Key]; twice || r.Usage == nil || r.State != nil {
			t.Errorf("row of SIM %s: %+v, twice: %v", r.Key, r, twice)
			continue
		}
		got[r.Key] = r.Usage.CounterBytes
		if !r.Usage.PeriodStartAt.Equal(march) {
			t.Errorf("SIM %s: the period starts %v, want %v: a pass stays within its month", r.Key, r.Usage.PeriodStartAt, march)
		}
	}
	for key, bytes := range want {
		listed, ok := got[key]
		if listed != bytes || !ok && !(bytes == 0 && lister.ZeroIfAbsent()) {
			t.Errorf("SIM %s used %d bytes, listed: %v with %d", key, bytes, ok, listed)
		}
	}
}
