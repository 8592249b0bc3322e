package carrier

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
)

func TestF34MemoryTokensAreMadeByOneAtATimeAndShared(t *testing.T) {
	now := time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC)
	store := NewMemoryTokens(func() time.Time { return now })
	var logins, underWay atomic.Int32
	login := func(context.Context) (Token, error) {
		if underWay.Add(1) != 1 {
			t.Error("two log in at once")
		}
		defer underWay.Add(-1)
		return Token{Value: string('a' - 1 + logins.Add(1)), EndsAt: now.Add(2 * time.Hour)}, nil
	}
	renew := func(bad string) (tok Token, made bool) {
		t.Helper()
		tok, made, err := store.Renew(t.Context(), Token{Value: bad}, login)
		if err != nil {
			t.Error(err)
		}
		return tok, made
	}
	var wait sync.WaitGroup
	var makers atomic.Int32
	for range 16 {
		wait.Go(func() {
			if tok, made := renew(""); tok.Value != "a" {
				t.Errorf("got token %q", tok.Value)
			} else if made {
				makers.Add(1)
			}
		})
	}
	wait.Wait()
	if logins.Load() != 1 || makers.Load() != 1 {
		t.Errorf("16 at once logged in %d times, and %d say that they did", logins.Load(), makers.Load())
	}
	if tok, made := renew("a"); tok.Value != "b" || !made {
		t.Errorf("for a refused token got %q, made %v", tok.Value, made)
	}
	if tok, made := renew("a"); tok.Value != "b" || made {
		t.Errorf("one that comes late with the same refused token got %q, made %v: no ping-pong", tok.Value, made)
	}
	now = now.Add(2*time.Hour - TokenMargin)
	if tok, made := renew(""); tok.Value != "c" || !made {
		t.Errorf("near its end got %q, made %v", tok.Value, made)
	}
	broken := errors.New("refused")
	if tok, _, err := store.Renew(t.Context(), Token{Value: "c"}, func(context.Context) (Token, error) { return Token{Value: "x"}, broken }); !errors.Is(err, broken) || tok.Value != "" {
		t.Errorf("a failed login gave %q, %v", tok.Value, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	store.(*memoryTokens).turn <- struct{}{} // somebody logs in
	if _, _, err := store.Renew(ended, Token{}, login); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that has gone: %v", err)
	}
}

func TestMonthInAZone(t *testing.T) {
	zone := time.FixedZone("UTC+8", 8*60*60)
	for at, want := range map[string][2]string{
		"2026-03-31T15:59:59Z": {"2026-02-28T16:00:00Z", "2026-03-31T16:00:00Z"},
		"2026-03-31T16:00:00Z": {"2026-03-31T16:00:00Z", "2026-04-30T16:00:00Z"},
		"2026-12-31T20:00:00Z": {"2026-12-31T16:00:00Z", "2027-01-31T16:00:00Z"},
	} {
		instant, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		start, end := MonthIn(instant, zone)
		if start.Format(time.RFC3339) != want[0] || end.Format(time.RFC3339) != want[1] {
			t.Errorf("the month around %s is %v to %v, want %v", at, start, end, want)
		}
	}
}

func TestGapOn(t *testing.T) {
	for _, row := range []struct {
		sentence     string
		info         Info
		read, change bool
	}{
		{"without a gap nothing is held", Info{}, false, false},
		{"a gap without operations is between all calls", Info{PerSIMGap: time.Minute}, true, true},
		{"a gap between changes holds no reads", Info{PerSIMGap: time.Minute, PerSIMGapOn: []simwarden.Operation{simwarden.OpSuspend, simwarden.OpResume}}, false, true},
	} {
		if row.info.GapOn(simwarden.OpQueryState) != row.read || row.info.GapOn(simwarden.OpSuspend) != row.change {
			t.Errorf("F39: %s: read %v, change %v", row.sentence, row.info.GapOn(simwarden.OpQueryState), row.info.GapOn(simwarden.OpSuspend))
		}
	}
}
