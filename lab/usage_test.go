package lab

import (
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/clock"
	"pgregory.net/rapid"
)

var profiles = []UsageProfile{ProfileMeter, ProfileHeavyTail, ProfileDayNight, ProfileStreamer, ProfileSilent}

func TestUsageNeverFalls(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := newGenerator(rapid.SampledFrom(profiles).Draw(t, "profile"), rapid.Uint64().Draw(t, "seed"))
		at := usageEpoch.Add(time.Duration(rapid.Int64Range(0, int64(20*365*day)).Draw(t, "at")))
		before := g.used(at)
		for range 50 {
			at = at.Add(time.Duration(rapid.Int64Range(0, int64(2*day)).Draw(t, "step")))
			if now := g.used(at); now < before {
				t.Fatalf("%s fell from %f to %f at %v", g.profile, before, now, at)
			} else {
				before = now
			}
		}
	})
}

func TestUsageDoesNotFallAtTheEndOfABurst(t *testing.T) {
	g := newGenerator(ProfileStreamer, 15)
	at := usageEpoch.Add(730*10*day + 2*day)
	if before, after := g.used(at), g.used(at.Add(10377200*time.Millisecond)); after < before {
		t.Errorf("a whole burst rounded to less than its end: %f, then %f", before, after)
	}
}

func TestProfilesAreWhatTheyAreCalled(t *testing.T) {
	from := time.Date(2026, 3, 10, 0, 0, 0, 0, time.UTC)
	const sims = 4000
	perDay := func(profile UsageProfile, seed uint64, n int) float64 {
		g := newGenerator(profile, seed)
		return g.used(from.Add(time.Duration(n+1)*day)) - g.used(from.Add(time.Duration(n)*day))
	}
	var meters, tail, most, streaming, night, noon float64
	for seed := range uint64(sims) {
		meters += perDay(ProfileMeter, seed, 0) / sims
		used := perDay(ProfileHeavyTail, seed, 0)
		tail += used / sims
		most = max(most, used)
		if perDay(ProfileStreamer, seed, 0) > 100e6 {
			streaming++
		}
		g := newGenerator(ProfileDayNight, seed)
		night += g.used(from.Add(3*time.Hour)) - g.used(from)
		noon += g.used(from.Add(15*time.Hour)) - g.used(from.Add(12*time.Hour))
	}
	switch {
	case meters < 50e3 || meters > 1e6:
		t.Errorf("a meter uses %.0f bytes a day", meters)
	case most < 50*tail:
		t.Errorf("the heaviest of the tail uses %.0f a day, the mean %.0f", most, tail)
	case streaming < sims/5 || streaming > sims*9/10:
		t.Errorf("%.0f of %d streamers stream on a given day", streaming, sims)
	case noon < 8*night:
		t.Errorf("by day %.0f, by night %.0f", noon, night)
	}
}

func TestUsageGrowsOnlyWhileActive(t *testing.T) {
	for _, profile := range profiles[:4] {
		t.Run(string(profile), func(t *testing.T) {
			c := clock.NewManual(time.Date(2026, 3, 30, 0, 0, 0, 0, time.UTC))
			a := plainAccount(t, New(Config{Clock: c, Seed: 3}))
			truth, err := a.AddSIM(NewSIM{Profile: profile, Age: 10 * day})
			if err != nil {
				t.Fatal(err)
			}
			iccid := truth.ICCID
			if truth.UsageBytes == 0 || truth.LifetimeBytes != truth.UsageBytes {
				t.Fatalf("after ten days: %+v", truth)
			}
			check := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			check(a.SetState(iccid, simwarden.StateSuspended))
			before, _ := a.SIM(iccid)
			c.Advance(day)
			if now, _ := a.SIM(iccid); now.LifetimeBytes != before.LifetimeBytes {
				t.Errorf("suspended, it used %d bytes", now.LifetimeBytes-before.LifetimeBytes)
			}
			check(a.SetState(iccid, simwarden.StateActive))
			check(a.AddUsage(iccid, 77))
			c.Advance(day - time.Second)
			march, _ := a.SIM(iccid)
			if march.LifetimeBytes <= before.LifetimeBytes+77 {
				t.Errorf("active for a day, it used %d bytes", march.LifetimeBytes-before.LifetimeBytes)
			}
			c.Advance(time.Hour)
			april, _ := a.SIM(iccid)
			if april.UsageBytes >= march.UsageBytes || april.LifetimeBytes < march.LifetimeBytes {
				t.Errorf("U2: at the month's turn the counter went from %d to %d, the lifetime from %d to %d",
					march.UsageBytes, april.UsageBytes, march.LifetimeBytes, april.LifetimeBytes)
			}
			a.SetUsageScale(100)
			scaled, _ := a.SIM(iccid)
			if scaled.LifetimeBytes != april.LifetimeBytes {
				t.Errorf("a new scale changed the past by %d bytes", scaled.LifetimeBytes-april.LifetimeBytes)
			}
			check(a.SetUsage(iccid, 4242))
			if set, _ := a.SIM(iccid); set.UsageBytes != 4242 {
				t.Errorf("usage was set to 4242 and is %d", set.UsageBytes)
			}
		})
	}
}

func TestHistoryIsBounded(t *testing.T) {
	c := clock.NewManual(usageEpoch)
	a := plainAccount(t, New(Config{Clock: c}))
	truth, err := a.AddSIM(NewSIM{Profile: ProfileMeter})
	if err != nil {
		t.Fatal(err)
	}
	var last int64
	for range 3 * maxHistory {
		c.Advance(time.Minute)
		if err := a.AddUsage(truth.ICCID, 1); err != nil {
			t.Fatal(err)
		}
		now, _ := a.SIM(truth.ICCID)
		if now.LifetimeBytes <= last {
			t.Fatalf("the lifetime fell from %d to %d", last, now.LifetimeBytes)
		}
		last = now.LifetimeBytes
	}
	if n := len(a.sims[0].history); n > maxHistory {
		t.Errorf("%d moments are kept", n)
	}
}

func TestUsedBytesAreWhatWasToldThen(t *testing.T) {
	c := clock.NewManual(usageEpoch)
	a, err := New(Config{Clock: c}).AddAccount(AccountSpec{Name: "plain", Dialect: "plain", UsageLag: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	truth, err := a.AddSIM(NewSIM{Profile: ProfileSilent, State: simwarden.StateActive})
	if err != nil {
		t.Fatal(err)
	}
	c.Advance(time.Hour)
	at := c.Now()
	if err := a.AddUsage(truth.ICCID, 77); err != nil {
		t.Fatal(err)
	}
	c.Advance(time.Hour)
	for _, row := range []struct {
		after time.Duration
		want  int64
	}{{-time.Second, 0}, {time.Minute - time.Second, 0}, {time.Minute, 77}, {time.Hour, 77}} {
		if got, ok := a.UsedBytes(truth.ICCID, at.Add(row.after)); !ok || got != row.want {
			t.Errorf("%s after 77 bytes the carrier tells of %d (known: %v), want %d", row.after, got, ok, row.want)
		}
	}
	if _, ok := a.UsedBytes("8900000000000000000", at); ok {
		t.Error("it knows the usage of a SIM that it does not have")
	}
}

// plainDialect says nothing: for tests of what lies beneath.
type plainDialect struct{ Session }

func (plainDialect) Words() []Word {
	return []Word{{"on", simwarden.StateActive, true}, {"off", simwarden.StateSuspended, false}}
}
func (plainDialect) ICCIDDigits() int                 { return 19 }
func (plainDialect) Key(iccid string) string          { return iccid }
func (d plainDialect) Open(*Account) (Session, error) { return d, nil }

func init() { RegisterDialect("plain", plainDialect{}) }

func plainAccount(t *testing.T, w *World) *Account {
	t.Helper()
	a, err := w.AddAccount(AccountSpec{Name: "plain", Dialect: "plain"})
	if err != nil {
		t.Fatal(err)
	}
	return a
}
