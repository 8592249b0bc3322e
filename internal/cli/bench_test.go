package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"testing"
	"testing/synctest"
	"time"
)

// The whole bench at a small size: its figures are the machine's, but what is counted must add up.
func TestBenchPollCountsWhatItSays(t *testing.T) {
	t.Setenv("SIMWARDEN_DATABASE_URL", "") // it makes its own
	var out, errOut bytes.Buffer
	code := Main(t.Context(), []string{"bench", "poll", "--sims", "600", "--compare-sims", "300", "--seconds", "0.2", "--carrier", "both"}, nil, &out, &errOut)
	if code != ExitOK {
		t.Fatalf("exit code %d: %s", code, errOut.String())
	}
	var report benchReport
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatalf("not one JSON object: %v", err)
	}
	if len(report.Results) != 4 || len(report.Comparisons) != 2 {
		t.Fatalf("%d results and %d comparisons of two carriers with two fleets each", len(report.Results), len(report.Comparisons))
	}
	for _, r := range report.Results {
		if r.Polls == 0 || r.Polls%int64(r.SIMs) != 0 {
			t.Errorf("%s, %d SIMs: %d polls are no whole passes", r.Carrier, r.SIMs, r.Polls)
		}
		if r.Judged != 0 || r.Lost != 0 || r.Failed != 0 || r.SingleReads != 0 {
			t.Errorf("%s, %d SIMs: %d judged, %d lost, %d failed, %d single reads in a settled fleet", r.Carrier, r.SIMs, r.Judged, r.Lost, r.Failed, r.SingleReads)
		}
		if r.PollsPerSecond <= 0 || r.CeilingPollsPerSecond <= 0 || r.CPU <= 0 || r.WALBytesPerPoll <= 0 || len(r.Rounds) != benchRounds {
			t.Errorf("%s, %d SIMs: something was not measured: %+v", r.Carrier, r.SIMs, r)
		}
		if r.HOTShare <= 0 || r.HOTShare > 1 {
			t.Errorf("%s, %d SIMs: a HOT share of %v", r.Carrier, r.SIMs, r.HOTShare)
		}
	}
	if report.RSSBytes <= 0 || report.RSSPeakBytes < report.RSSBytes/2 {
		t.Errorf("memory of %d bytes, %d at most", report.RSSBytes, report.RSSPeakBytes)
	}
}

func TestBenchPollRefusesWhatItCannotMeasure(t *testing.T) {
	for _, args := range [][]string{
		{"--sims", "1"}, {"--seconds", "0"}, {"--sims", "200", "--compare-sims", "200"}, {"--database-url", "postgres://h/d"},
	} {
		var out, errOut bytes.Buffer
		if code := Main(t.Context(), append([]string{"bench", "poll"}, args...), nil, &out, &errOut); code == ExitOK || out.Len() > 0 || errOut.Len() == 0 {
			t.Errorf("%v: exit code %d, output %q, message %q", args, code, out.String(), errOut.String())
		}
	}
}

func TestSkipClockLeavesTimeOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSkipClock()
		before := c.Now()
		slept := make(chan error, 1)
		go func() { slept <- c.Sleep(t.Context(), time.Hour) }()
		if err := c.idle(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		c.skip(59 * time.Minute)
		synctest.Wait()
		select {
		case err := <-slept:
			t.Fatalf("a sleep of an hour ended after 59 minutes: %v", err)
		default:
		}
		time.Sleep(time.Minute) //nolint:forbidigo // it passes at once: the bubble's own time goes on too
		c.follow()
		if err := <-slept; err != nil {
			t.Fatal(err)
		}
		if got := c.Now().Sub(before); got != time.Hour {
			t.Errorf("%v have passed, want 1h", got)
		}
		c.hold()
		time.Sleep(time.Minute) //nolint:forbidigo // see above
		if got := c.Now().Sub(before); got != time.Hour {
			t.Errorf("%v have passed while the clock was held, want 1h", got)
		}
		c.skip(time.Second)
		time.Sleep(time.Second) //nolint:forbidigo // see above
		if got := c.Now().Sub(before); got != time.Hour+2*time.Second {
			t.Errorf("%v have passed after it ran again, want 1h0m2s", got)
		}
	})
}

func TestStatOfAProcessWithAnyName(t *testing.T) {
	s, err := parseStat([]byte("4711 (post) gres: ) (x) S 42 4711 4711 0 -1 4194304 1 2 3 4 150 50 7 3 20 0 1 0 5 6 7\n"))
	if err != nil {
		t.Fatal(err)
	}
	if s.pid != 4711 || s.parent != 42 || s.cpu != 2*time.Second || s.reaped != 100*time.Millisecond {
		t.Errorf("read as %+v", s)
	}
	for _, bad := range []string{"", "1 (a", "1 (a) S 2 3", "x (a) S 42 1 1 0 -1 1 1 2 3 4 150 50 7 3 20"} {
		if _, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

// A child's CPU time counts while it lives and once it has ended.
func TestServerCPUCountsChildren(t *testing.T) {
	before, err := serverCPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := exec.CommandContext(t.Context(), "sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done").Run(); err != nil {
		t.Fatal(err)
	}
	after, err := serverCPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if after-before < 3*tickCPU {
		t.Errorf("a busy child added %v", after-before)
	}
}
