package cli_test

import (
	"strings"
	"testing"

	"github.com/simwarden/simwarden/internal/api"
	"github.com/simwarden/simwarden/internal/cli"
	"github.com/simwarden/simwarden/internal/store"
)

func TestDevicesAtTheTerminal(t *testing.T) {
	c := newTerminal(t)
	const imei, first, second = "490154203237518", "8986012345678901234", "8986012345678901242"
	if out, code := c.run(t.Context(), strings.NewReader("iccid\n"+first+"\n"+second+"\n"), "import", "sims", "-", "--account", "acme"); code != cli.ExitOK {
		t.Fatal(out)
	}
	why := []string{"--reason", "as a test"}
	for _, row := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"plan", "add", "gold", "--allowance", "1GB", "--validity", "30d"}, cli.ExitOK, "gold"},
		{[]string{"device", "add", "1234"}, cli.ExitUsage, "IMEI"},
		{[]string{"device", "add", imei, "--name", "pump 7"}, cli.ExitOK, "device bind " + imei},
		{[]string{"device", "add", imei}, cli.ExitFailed, "there already"},
		{append([]string{"device", "bind", imei, first}, why...), cli.ExitOK, "is in device " + imei},
		{append([]string{"device", "bind", imei, first}, why...), cli.ExitFailed, "in a device already"},
		{append([]string{"device", "bind", "356938035643809", second}, why...), cli.ExitNotFound, "not found"},
		{[]string{"device", "subscribe", imei, "gold"}, cli.ExitOK, "active until"},
		{[]string{"subscribe", second, "gold"}, cli.ExitOK, "active until"},
		{append([]string{"device", "bind", imei, second}, why...), cli.ExitFailed, "plans of its own"},
		{append([]string{"device", "bind", imei, second, "--move-plans"}, why...), cli.ExitFailed, "one at a time"},
		{append([]string{"device", "pause", imei}, why...), cli.ExitOK, "is paused now"},
		{append([]string{"device", "pause", imei}, why...), cli.ExitOK, "was paused already"},
		{[]string{"explain", first}, cli.ExitOK, "polling of its device is paused"},
		{[]string{"device", "list", "--paused"}, cli.ExitOK, "pump 7"},
		{append([]string{"device", "resume", imei}, why...), cli.ExitOK, "is running now"},
		{append([]string{"device", "unbind", imei, first}, why...), cli.ExitOK, "not in device " + imei},
		{append([]string{"device", "unbind", imei, first}, why...), cli.ExitFailed, "not in this device"},
		{[]string{"device", "show", imei}, cli.ExitOK, first},
		{append([]string{"polling", "pause", first, second}, why...), cli.ExitOK, "The polling of " + second + " is paused now"},
		{append([]string{"polling", "resume", first, "nothing", second}, why...), cli.ExitUsage, "nothing and what follows it are left as they are"},
		{append([]string{"polling", "resume", first, second}, why...), cli.ExitOK, "The polling of " + first + " was running already"},
		{[]string{"sims", "--closed"}, cli.ExitOK, "No SIM is so"},
		{[]string{"sims", "--extended-state", "none"}, cli.ExitOK, ""},
		{append([]string{"sim", "realname", first, "verified"}, why...), cli.ExitOK, "verified now"},
		{append([]string{"sim", "realname", first, "perhaps"}, why...), cli.ExitUsage, "verified"},
		{[]string{"account", "set", "acme", "--realname-required=true"}, cli.ExitOK, "cannot read real-name status"},
		{[]string{"account", "set", "acme", "--renewal-lead", "48h"}, cli.ExitOK, "is changed"},
		{[]string{"account", "set", "acme", "--renewal-lead", "192h"}, cli.ExitUsage, "renewal_lead_seconds"},
		{[]string{"account", "progress", "acme"}, cli.ExitOK, "0 of 2"},
	} {
		out, code := c.run(t.Context(), nil, row.args...)
		if code != row.code || !strings.Contains(out, row.says) {
			t.Errorf("%v: exit code %d, want %d and %q:\n%s", row.args, code, row.code, row.says, out)
		}
	}
	page, err := jsonOf[api.Page[store.Device]](t.Context(), c, "device", "list")
	if err != nil || len(page.Items) != 1 || page.Items[0].IMEI != imei || page.Items[0].SIMs != 0 {
		t.Errorf("the devices are %+v (%v)", page.Items, err)
	}
}
