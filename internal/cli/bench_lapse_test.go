package cli_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/simwarden/simwarden/internal/cli"
)

// F67: plans that end at one instant, with the node killed while it handles them.
func TestF67L2AStormWithKillsLosesNothingAndHandlesNothingTwice(t *testing.T) {
	t.Setenv("SIMWARDEN_DATABASE_URL", "") // it makes its own
	t.Setenv(asProgram, "yes")
	var out, errOut bytes.Buffer
	// How long it takes is the machine's, and the exit code speaks of that too.
	code := cli.Main(t.Context(), []string{"bench", "lapse", "--sims", "5000", "--kills", "3"}, nil, &out, &errOut)
	var r struct {
		SIMs, Kills, Lost, Twice int
		Decided                  int `json:"decided_exactly_once"`
		Manual                   int `json:"manual_commands"`
	}
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("exit code %d, %v: %s%s", code, err, out.String(), errOut.String())
	}
	if r.SIMs != 5000 || r.Kills != 3 || r.Decided != 5000 || r.Lost != 0 || r.Twice != 0 || r.Manual == 0 {
		t.Errorf("of 5000 plan ends: %+v", r)
	}
}

func TestBenchLapseRefusesWhatItCannotMeasure(t *testing.T) {
	for _, args := range [][]string{{"--sims", "1"}, {"--kills", "-1"}, {"--database-url", "postgres://h/d"}} {
		var out, errOut bytes.Buffer
		if code := cli.Main(t.Context(), append([]string{"bench", "lapse"}, args...), nil, &out, &errOut); code == cli.ExitOK || out.Len() > 0 || errOut.Len() == 0 {
			t.Errorf("%v: exit code %d, output %q, message %q", args, code, out.String(), errOut.String())
		}
	}
}
