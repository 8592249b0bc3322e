package carriertest

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/lab"
)

func faults(Suite) []check {
	return []check{
		{"F24: an answer that is not understood is a bad answer, never a state", garbageIsNoState},
		{"F24: a command's answer that is not understood is an unknown outcome", garbageIsNoOutcome},
		{"F23: an error within a good status is neither a state nor a success", errorInside},
		{"F25: an answer without end is bounded in time and size", endlessAnswers},
		{"F26: a 429 is throttled, with the carrier's wait where it makes sense", throttles},
		{"C5: a read that meets a 5xx is told with its status and may be asked again", readServerError},
	}
}

var garbageVariants = []string{"html", "empty", "truncated", "bom", "gbk", "wrong_type", "trailing"}

// readers are the driver's ways to read, each giving what it took out of the answer.
func (b *bench) readers(ctx context.Context, sim carrier.SIMRef) map[string]func() ([]simwarden.Reading, error) {
	one := func(r simwarden.Reading, err error) ([]simwarden.Reading, error) {
		if r == (simwarden.Reading{}) {
			return nil, err
		}
		return []simwarden.Reading{r}, err
	}
	out := map[string]func() ([]simwarden.Reading, error){
		"State": func() ([]simwarden.Reading, error) { return one(b.conn.State(ctx, sim)) },
		"State by ICCID": func() ([]simwarden.Reading, error) {
			return one(b.conn.State(ctx, carrier.SIMRef{ICCID: sim.ICCID}))
		},
	}
	if c, ok := b.conn.(carrier.Lister); ok {
		out["List"] = func() ([]simwarden.Reading, error) { p, err := c.List(ctx, ""); return p.Readings, err }
	}
	if c, ok := b.conn.(carrier.UsageReader); ok {
		out["Usage"] = func() ([]simwarden.Reading, error) { return one(c.Usage(ctx, sim)) }
	}
	if c, ok := b.conn.(carrier.RealNameReader); ok {
		out["RealName"] = func() ([]simwarden.Reading, error) { return one(c.RealName(ctx, sim)) }
	}
	if c, ok := b.conn.(carrier.BatchReader); ok {
		out["SIMs"] = func() ([]simwarden.Reading, error) { return c.SIMs(ctx, []carrier.SIMRef{sim}) }
	}
	if c, ok := b.conn.(carrier.UsageBatchReader); ok {
		out["UsageOf"] = func() ([]simwarden.Reading, error) { return c.UsageOf(ctx, []carrier.SIMRef{sim}) }
	}
	if c, ok := b.conn.(carrier.UsageLister); ok {
		out["ListUsage"] = func() ([]simwarden.Reading, error) { p, err := c.ListUsage(ctx, ""); return p.Readings, err }
	}
	return out
}

func garbageIsNoState(t *testing.T, s Suite) {
	const used = 987_654_321
	for _, variant := range garbageVariants {
		b := s.open(t, lab.AccountSpec{})
		sim := b.sim(simwarden.StateActive)
		if err := b.account.SetUsage(sim.ICCID.String(), used); err != nil {
			t.Fatal(err)
		}
		b.clock.Advance(2 * time.Second)
		if _, err := b.conn.State(t.Context(), sim); err != nil {
			t.Fatal(b.failure(err))
		}
		b.fault(lab.Fault{Name: lab.Garbage, Variant: variant})
		for name, read := range b.readers(t.Context(), sim) {
			got, err := read()
			if err == nil {
				// A number that comes as text is still the number.
				exact := variant == "wrong_type" && len(got) == 1 && got[0].State == nil && got[0].Key == sim.Key && got[0].Usage != nil && got[0].Usage.CounterBytes == used
				if !exact {
					t.Errorf("%s took %s for %+v", name, variant, got)
				}
				continue
			}
			if len(got) != 0 {
				t.Errorf("%s gave %+v beside the error", name, got)
			}
			e := b.failure(err)
			if !e.BadAnswer || e.HTTPStatus != http.StatusOK || b.class(e).Terminal() {
				t.Errorf("%s: %s is %v, bad answer: %v, class %s", name, variant, e, e.BadAnswer, b.class(e))
			}
		}
		if err := b.conn.Probe(t.Context()); err == nil || !b.failure(err).BadAnswer {
			if variant != "wrong_type" {
				t.Errorf("the probe took %s for an answer: %v", variant, err)
			}
		}
	}
}

func errorInside(t *testing.T, s Suite) {
	b := s.open(t, lab.AccountSpec{})
	sim := b.sim(simwarden.StateActive)
	if _, err := b.conn.State(t.Context(), sim); err != nil {
		t.Fatal(b.failure(err))
	}
	b.fault(lab.Fault{Name: lab.OKWithError})
	for name, read := range b.readers(t.Context(), sim) {
		got, err := read()
		if err == nil || len(got) != 0 {
			t.Errorf("%s took an error for %+v, %v", name, got, err)
			continue
		}
		if e := b.failure(err); e.HTTPStatus != http.StatusOK || b.class(e).Terminal() {
			t.Errorf("%s: an error that says nothing of the SIM is %s (%v)", name, b.class(e), e)
		}
	}
	if err := b.conn.Probe(t.Context()); err == nil {
		t.Error("the probe took an error for success")
	}
	both(t, s, lab.AccountSpec{}, func(b *bench, sim carrier.SIMRef, d simwarden.Direction, send func(context.Context) (carrier.Result, error)) {
		b.fault(lab.Fault{Name: lab.OKWithError})
		result, err := send(b.t.Context())
		if err == nil {
			b.t.Fatalf("an error was taken for %+v", result)
		}
		e := b.failure(err)
		b.oneRequest(d)
		if b.class(e) != carrier.ClassUnknownOutcome {
			b.t.Errorf("an unknown error on a %s is %s (%v), want unknown_outcome", d, b.class(e), e)
		}
	})
}

func garbageIsNoOutcome(t *testing.T, s Suite) {
	for _, variant := range garbageVariants {
		both(t, s, lab.AccountSpec{}, func(b *bench, sim carrier.SIMRef, d simwarden.Direction, send func(context.Context) (carrier.Result, error)) {
			b.fault(lab.Fault{Name: lab.Garbage, Variant: variant})
			result, err := send(b.t.Context())
			if err == nil {
				b.t.Fatalf("%s was taken for %+v", variant, result)
			}
			e := b.failure(err)
			b.oneRequest(d)
			if !e.BadAnswer || b.class(e) != carrier.ClassUnknownOutcome || result.State != nil {
				b.t.Errorf("%s is %v, class %s, with state %v; want unknown_outcome", variant, e, b.class(e), result.State)
			}
			if got := b.truth(sim.ICCID.String()).State; got != d.Target() {
				b.t.Errorf("the SIM is %s: the check wanted a change that was made", got)
			}
		})
	}
}

func endlessAnswers(t *testing.T, s Suite) {
	const patience = 400 * time.Millisecond
	for _, fault := range []lab.Fault{{Name: lab.Drip, Seconds: 3600}, {Name: lab.Flood, Bytes: -1}, {Name: lab.Flood, Bytes: carrier.MaxAnswerBytes + 1}} {
		b := s.open(t, lab.AccountSpec{})
		sim := b.sim(simwarden.StateActive)
		if _, err := b.conn.State(t.Context(), sim); err != nil {
			t.Fatal(b.failure(err))
		}
		b.fault(fault)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		done := make(chan error, 1)
		go func() {
			_, err := b.conn.State(ctx, sim)
			done <- err
		}()
		select {
		case err := <-done:
			if err == nil {
				t.Errorf("%s of %d bytes was taken for an answer", fault.Name, fault.Bytes)
				break
			}
			e := b.failure(err)
			if e.NotSent || !e.BadAnswer && ctx.Err() == nil {
				t.Errorf("%s is %v: it ended neither by size nor by time", fault.Name, e)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("%s holds the driver long after its context has ended", fault.Name)
		}
		cancel()
	}
}

func throttles(t *testing.T, s Suite) {
	for _, row := range []struct {
		variant string
		least   time.Duration
		most    time.Duration
	}{
		{"none", 0, 0},
		{"seconds", 17 * time.Second, 17 * time.Second},
		{"date", 16 * time.Second, 17 * time.Second},
		{"nonsense", 0, 0},
		{"past", 0, 0},
		{"year", carrier.MaxRetryAfter, carrier.MaxRetryAfter},
	} {
		both(t, s, lab.AccountSpec{}, func(b *bench, sim carrier.SIMRef, d simwarden.Direction, send func(context.Context) (carrier.Result, error)) {
			b.fault(lab.Fault{Name: lab.Throttle, Variant: row.variant, Seconds: 17})
			_, sendErr := send(b.t.Context())
			b.oneRequest(d)
			_, readErr := b.conn.State(b.t.Context(), sim)
			for what, err := range map[string]error{"command": sendErr, "read": readErr} {
				e := b.failure(err)
				if e.HTTPStatus != http.StatusTooManyRequests || b.class(e) != carrier.ClassThrottled {
					b.t.Errorf("%s with Retry-After %s is %v, class %s", what, row.variant, e, b.class(e))
				}
				if e.RetryAfter < row.least || e.RetryAfter > row.most {
					b.t.Errorf("%s with Retry-After %s waits %v, want %v to %v", what, row.variant, e.RetryAfter, row.least, row.most)
				}
			}
			if n := b.doer.count(simwarden.OpQueryState); n != 1 {
				b.t.Errorf("a throttled read was sent %d times: repeating is not the driver's business", n)
			}
		})
	}
}

func readServerError(t *testing.T, s Suite) {
	for _, status := range []int{500, 502, 503, 504} {
		b := s.open(t, lab.AccountSpec{})
		sim := b.sim(simwarden.StateActive)
		if _, err := b.conn.State(t.Context(), sim); err != nil {
			t.Fatal(b.failure(err))
		}
		b.fault(lab.Fault{Name: lab.Fail5xx, Status: status})
		for name, read := range b.readers(t.Context(), sim) {
			b.doer.take()
			got, err := read()
			if len(got) != 0 {
				t.Errorf("%s gave %+v with HTTP %d", name, got, status)
			}
			e := b.failure(err)
			if e.HTTPStatus != status || b.class(e) != carrier.ClassTemporary {
				t.Errorf("%s: HTTP %d is %v, class %s, want temporary", name, status, e, b.class(e))
			}
			if sent := b.doer.take(); len(sent) != 1 {
				t.Errorf("%s sent %v for one HTTP %d: repeating is not the driver's business", name, sent, status)
			}
		}
	}
}
