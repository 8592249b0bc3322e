package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/simwarden/simwarden/internal/cli"
)

// L4 from the command line: when a plan begins, and from which day its months run.
func TestL4PlanModes(t *testing.T) {
	c := newTerminal(t)
	file := filepath.Join(t.TempDir(), "sims.csv")
	if err := os.WriteFile(file, []byte("iccid\n8986012345678901234\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, command, says string }{
		{"a SIM", "import sims " + file + " --account acme", ""},
		{"a plan that waits for its first use", "plan add travel --allowance 1GB --validity 30d --activation first-use --activate-by 90d", "Plan travel is added"},
		{"a plan with a guard band (E12)", "plan add banded --allowance 1GB --validity 30d --guard-band 50MB --promise 0.99", "Plan banded is added"},
		{"no stop under a guard band", "guard-band --days 7", "No stop under a guard band in the last 7 days"},
		{"what is kept for how long", "retention", "Nothing has been deleted yet"},
		{"commands are kept for a year", "retention set command 365d --reason audit", "365 days"},
		{"records are kept for good", "retention set command_record forever --reason audit", "for good"},
		{"a plan from the 27th to the 26th", "plan add unicom --allowance 1GB --validity 12bm --reset billing-month --billing-day 27 --zone Asia/Shanghai", "Plan unicom is added"},
		{"both are listed", "plan list", "12 billing months from day 27"},
		{"and when they begin", "plan list", "first_use"},
		{"what is bought says what it waits for", "subscribe 8986012345678901234 travel", "is queued: it begins with its first use, "},
	} {
		if out, code := c.run(t.Context(), nil, strings.Fields(tt.command)...); code != cli.ExitOK || !strings.Contains(out, tt.says) {
			t.Errorf("%s: exit %d, %q does not contain %q", tt.name, code, out, tt.says)
		}
	}
	for _, tt := range []struct{ name, command, says string }{
		{"a guard band of a plan without a limit", "plan add a --allowance unlimited --validity 30d --guard-band 50MB", "has a data limit"},
		{"a guard band of an add-on", "plan add a --kind addon --allowance 1GB --validity 30d --guard-band 50MB", "main plan"},
		{"a promise without a guard band", "plan add a --allowance 1GB --validity 30d --promise 0.9", "guard band alone"},
		{"a promise that nobody can keep", "plan add a --allowance 1GB --validity 30d --guard-band 0B --promise 1", "0.5 to 0.999"},
		{"events that receivers may still want", "retention set event 3d --reason disk", "35 to 36600"},
		{"a time to keep that is none", "retention set event soon --reason disk", "400d, or forever"},
		{"a billing month without its day", "plan add a --allowance 1GB --validity 1bm", "day 1 to 31"},
		{"a latest start that is no number of days", "plan add a --allowance 1GB --validity 1mo --activation realname --activate-by soon", "90d"},
		{"a latest start of what does not wait", "plan add a --allowance 1GB --validity 1mo --activate-by 9d", "first_use or realname alone"},
	} {
		if out, code := c.run(t.Context(), nil, strings.Fields(tt.command)...); code != cli.ExitUsage || !strings.Contains(out, tt.says) {
			t.Errorf("%s: exit %d, %q does not contain %q", tt.name, code, out, tt.says)
		}
	}
}
