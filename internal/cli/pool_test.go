package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/simwarden/simwarden/internal/api"
	"github.com/simwarden/simwarden/internal/cli"
	"github.com/simwarden/simwarden/internal/store"
)

func TestPoolsAtTheTerminal(t *testing.T) {
	c := newTerminal(t)
	const imei, first, second, third = "490154203237518", "8986012345678901234", "8986012345678901242", "8986012345678901259"
	if out, code := c.run(t.Context(), strings.NewReader("iccid\n"+first+"\n"+second+"\n"+third+"\n"), "import", "sims", "-", "--account", "acme"); code != cli.ExitOK {
		t.Fatal(out)
	}
	file := filepath.Join(t.TempDir(), "iccids.txt")
	if err := os.WriteFile(file, []byte(first+"\n\n"+third+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		args string
		code int
		says string
	}{
		{"device add " + imei, cli.ExitOK, "is added"},
		{"device bind " + imei + " " + third + " --reason fitted", cli.ExitOK, "is in device"},
		{"pool add meters --allowance 500GB --policy over-cap --cap 1GB --reset billing-month --billing-day 27 --zone Asia/Shanghai", cli.ExitOK, "pool member add meters"},
		{"pool add meters --allowance 500GB", cli.ExitUsage, "exists already"},
		{"pool add empty --allowance 0", cli.ExitUsage, "stop its members at once"},
		{"pool add endless --allowance unlimited", cli.ExitUsage, "give 1 to"},
		{"pool add odd --allowance 1GB --reset billing-month", cli.ExitUsage, "day 1 to 31"},
		{"pool add odd --allowance 1GB --zone Mars/Olympus", cli.ExitUsage, "zone"},
		{"pool add other --allowance 1GB", cli.ExitOK, "is added"},
		{"pool member add meters", cli.ExitUsage, "--file"},
		{"pool member add nowhere " + first, cli.ExitNotFound, "nowhere"},
		{"pool member add meters --file " + file + " --device " + imei, cli.ExitFindings, "whose plans count for it"},
		{"pool member add meters " + first, cli.ExitFindings, "in this pool already"},
		{"pool member add other " + first, cli.ExitFindings, "in another pool"},
		{"pool member add other " + second + " --cap 2GB", cli.ExitOK, "1 are now in pool other"},
		{"pool member add other 8986012345678909990", cli.ExitFindings, "not found"},
		{"pool member list other", cli.ExitOK, "2.0 GB"},
		{"pool member list meters", cli.ExitOK, "device"},
		{"pool list", cli.ExitOK, "over cap"},
		{"pool top-up meters 5GB --key k --note promised", cli.ExitOK, "of 505.0 GB"},
		{"pool top-up meters 5GB --key k --note promised", cli.ExitOK, "Nothing is done"},
		{"pool top-up meters 6GB --key k", cli.ExitUsage, "used for another request"},
		{"pool top-up meters 0", cli.ExitUsage, "give 1 to"},
		{"pool set meters --policy all --allowance 400GB", cli.ExitOK, "of 405.0 GB, policy all"},
		{"pool set meters --allowance 0", cli.ExitUsage, "stop its members at once"},
		{"pool show meters", cli.ExitOK, "promised"},
		{"pool show meters", cli.ExitOK, "by 2 members"},
		{"explain " + third, cli.ExitOK, "Pool      meters"},
		{"pool member remove meters " + second, cli.ExitFindings, "not in this pool"},
		{"pool member remove meters " + first, cli.ExitOK, "1 are no longer in pool meters"},
		{"device bind " + imei + " " + second + " --reason fitted", cli.ExitFailed, "take it out of the pool first"},
		{"audit", cli.ExitOK, "pool_member_remove"},
	} {
		out, code := c.run(t.Context(), nil, strings.Fields(row.args)...)
		if code != row.code || !strings.Contains(out, row.says) {
			t.Errorf("%s: exit code %d, want %d and %q:\n%s", row.args, code, row.code, row.says, out)
		}
	}
	members, err := jsonOf[api.Page[store.PoolMember]](t.Context(), c, "pool", "member", "list", "meters")
	if err != nil || len(members.Items) != 1 || members.Items[0].Name != imei || members.Items[0].CapBytes != 1_000_000_000 {
		t.Errorf("the members are %+v (%v)", members.Items, err)
	}
	v, err := jsonOf[api.PoolView](t.Context(), c, "pool", "show", "meters")
	if err != nil || v.Members != 1 || v.ExtraBytes != 5_000_000_000 || v.NextResetAt.Day() != 26 || v.NextResetAt.Hour() != 16 {
		t.Errorf("the pool is %+v (%v)", v.Pool, err)
	}
}
