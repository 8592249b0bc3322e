package cli

import (
	"bytes"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/lab"
)

func TestBenchLimitRefusesWhatItCannotMeasure(t *testing.T) {
	t.Setenv("SIMWARDEN_DATABASE_URL", "")
	for _, args := range [][]string{
		{"--per-second", "0"}, {"--per-second", "5,9999"}, {"--processes", "0"}, {"--seconds", "1"}, {"--callers", "0"}, {"--slack", "1s"},
		{"--database-url", "postgres://h/d"},
	} {
		var out, errOut bytes.Buffer
		if code := Main(t.Context(), append([]string{"bench", "limit"}, args...), nil, &out, &errOut); code != ExitUsage || out.Len() > 0 || errOut.Len() == 0 {
			t.Errorf("%v: exit code %d, output %q, message %q", args, code, out.String(), errOut.String())
		}
	}
}

func TestBenchLimitCountsArrivals(t *testing.T) {
	begun := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	line := func(ms int, op simwarden.Operation, violation string) lab.LogLine {
		return lab.LogLine{ArrivedAt: begun.Add(time.Duration(ms) * time.Millisecond), Operation: op, LimitViolation: violation}
	}
	var r benchLimitResult
	r.count([]lab.LogLine{
		line(900, simwarden.OpQueryState, ""), line(0, simwarden.OpToken, ""), line(100, simwarden.OpQueryState, ""),
		line(1000, simwarden.OpQueryState, "more than 2"), line(1100, simwarden.OpQueryState, ""), line(2100, simwarden.OpQueryState, ""),
	}, 2)
	if r.Arrivals != 5 || r.MostInSecond != 3 || r.Violations != 1 || r.Share != 1 {
		t.Errorf("got %+v; want 5 arrivals within 2 s, 3 of them within a second that is open at its end, of a limit of 2", r)
	}
}
