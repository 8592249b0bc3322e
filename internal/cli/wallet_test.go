package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/simwarden/simwarden/internal/cli"
)

func TestMoneyAtTheTerminal(t *testing.T) {
	c := newTerminal(t)
	const iccid = "8986012345678901234"
	statement := filepath.Join(t.TempDir(), "may.csv")
	if err := os.WriteFile(statement, []byte("iccid,period,cost,currency\n"+iccid+",2026-05,3.10,EUR\n8986012345678909997,2026-05,3.00,EUR\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	soon := time.Now().Add(24 * time.Hour).UTC().Format(time.RFC3339)
	for _, k := range []struct {
		name string
		args string
		code int
		says string
	}{
		{"a SIM to pay for", "import sims - --account acme", cli.ExitOK, "1 added"},
		{"a wallet (M1)", "wallet add anna EUR --credit-limit 5.00", cli.ExitOK, "Wallet anna is added"},
		{"its name again", "wallet add anna EUR", cli.ExitUsage, "exists already"},
		{"a currency that is none", "wallet add ben EURO", cli.ExitUsage, "ISO 4217"},
		{"a plan with a price", "plan add paid --allowance unlimited --validity 30d --price 9.90EUR", cli.ExitOK, "Plan paid is added"},
		{"a price that is none", "plan add dear --allowance unlimited --validity 30d --price 9,90EUR", cli.ExitUsage, "write it as 9.90"},
		{"the price in the list", "plan list", cli.ExitOK, "9.90 EUR"},
		{"nobody pays yet", "subscribe " + iccid + " paid --pay", cli.ExitFailed, "no wallet pays"},
		{"neither SIM nor device", "wallet assign anna", cli.ExitUsage, "--device"},
		{"the wallet pays", "wallet assign anna " + iccid, cli.ExitOK, "Wallet anna pays for this SIM"},
		{"it cannot pay, and says what it has", "subscribe " + iccid + " paid --pay", cli.ExitFailed, `wallet "anna" has 0.00 EUR with a credit limit of 5.00 EUR, and needs 9.90 EUR`},
		{"a top-up (M2)", "wallet top-up anna 20EUR --key k --note payment-7", cli.ExitOK, "20.00 EUR is in wallet anna"},
		{"the same top-up again (F51)", "wallet top-up anna 20EUR --key k --note payment-7", cli.ExitOK, "booked before"},
		{"another one with its key (F51)", "wallet top-up anna 21EUR --key k", cli.ExitUsage, "used for another request"},
		{"a top-up in another currency", "wallet top-up anna 21JPY", cli.ExitUsage, "not in JPY"},
		{"a purchase", "subscribe " + iccid + " paid --pay --key s", cli.ExitOK, "Subscription 1 (paid) is active"},
		{"the same purchase again (F51)", "subscribe " + iccid + " paid --pay --key s", cli.ExitOK, "Subscription 1 (paid) is active"},
		{"it is renewed (M2)", "renewal 1 on", cli.ExitOK, "is bought again at its end"},
		{"it is not renewed", "renewal 1 off", cli.ExitOK, "is not bought again"},
		{"a wallet that is not there", "wallet show dora", cli.ExitNotFound, "dora"},
		{"the wallet and what has moved it", "wallet show anna", cli.ExitOK, "payment-7"},
		{"its balance", "wallet list", cli.ExitOK, "10.10 EUR"},
		{"more than was paid", "refund 1 --reason x --amount 9.91EUR", cli.ExitFailed, "above what is left"},
		{"an amount, and no money", "refund 1 --reason x --amount 9EUR --keep-money", cli.ExitUsage, "--amount"},
		{"a part of it (L3)", "refund 1 --reason half --amount 4.95EUR --key r", cli.ExitOK, "4.95 EUR went back"},
		{"the same refund again (F51)", "refund 1 --reason half --amount 4.95EUR --key r", cli.ExitOK, "is refunded"},
		{"a limit (M1)", "wallet credit-limit anna 7.50EUR", cli.ExitOK, "22.55 EUR can be spent"},
		{"a statement (M3)", "import statement " + statement + " --account acme", cli.ExitOK, "2 added"},
		{"the same statement again", "import statement " + statement + " --account acme", cli.ExitOK, "2 there already"},
		{"a statement of an account that is not there", "import statement " + statement + " --account nobody", cli.ExitNotFound, "nobody"},
		{"a rate", "margin rate acme 2026-01 3.00EUR", cli.ExitOK, "should cost 3.00 EUR"},
		{"what differs", "margin differences acme 2026-05", cli.ExitFindings, "unknown_sim"},
		{"what differs in a month without a statement", "margin differences acme 2026-04", cli.ExitOK, "ICCID"},
		{"what a SIM cost", "margin acme 2026-05", cli.ExitOK, "3.10 EUR"},
		{"a month that is none", "margin acme 2026-5", cli.ExitUsage, "2026-05"},
		{"a correction needs a reason (R2)", "wallet adjust anna 1EUR", cli.ExitUsage, "--reason"},
		{"a correction", "wallet adjust anna 1.50EUR --reason promised --key adj", cli.ExitOK, "1.50 EUR was added to wallet anna"},
		{"the same correction again (F51)", "wallet adjust anna 1.50EUR --reason promised --key adj", cli.ExitOK, "booked before"},
		{"and back", "wallet adjust anna 1.50EUR --take --reason mistaken", cli.ExitOK, "1.50 EUR was taken from wallet anna"},
		{"more than there is", "wallet adjust anna 999EUR --take --reason x", cli.ExitFailed, "wallet \"anna\" has"},
		{"a hold that would end after a year", "wallet hold place anna 5EUR --until 2030-01-01T00:00:00Z", cli.ExitUsage, "366 days"},
		{"a hold", "wallet hold place anna 5EUR --until " + soon + " --key h", cli.ExitOK, "as hold 1"},
		{"the same hold again (F51)", "wallet hold place anna 5EUR --until " + soon + " --key h", cli.ExitOK, "as hold 1"},
		{"a plan that is not paid yet", "subscribe " + iccid + " paid", cli.ExitOK, "Subscription 2"},
		{"it is paid with held money", "wallet hold capture 1 2 --amount 4EUR", cli.ExitOK, "4.00 EUR of hold 1 has paid subscription 2"},
		{"a hold ends once", "wallet hold release 1 --reason x", cli.ExitFailed, "has ended"},
		{"another hold", "wallet hold place anna 4EUR --until " + soon, cli.ExitOK, "as hold 3"},
		{"it goes back", "wallet hold release 3 --reason cancelled", cli.ExitOK, "4.00 EUR of hold 3 went back"},
		{"a hold that is not there", "wallet hold release 7 --reason x", cli.ExitNotFound, "hold 7"},
		{"the holds", "wallet hold list anna", cli.ExitOK, "captured"},
		{"what was paid with it goes back", "refund 2 --reason tested", cli.ExitOK, "4.00 EUR went back"},
		{"the wallet is taken away", "wallet assign none " + iccid, cli.ExitOK, "No wallet pays for this SIM"},
	} {
		out, code := c.run(t.Context(), strings.NewReader("iccid\n"+iccid+"\n"), strings.Fields(k.args)...)
		if code != k.code || !strings.Contains(out, k.says) {
			t.Errorf("%s: %s: exit code %d, want %d; it should say %q:\n%s", k.name, k.args, code, k.code, k.says, out)
		}
	}
	out, code := c.run(t.Context(), nil, "wallet", "show", "anna", "--json")
	var shown struct {
		Balance int64 `json:"balance_minor"`
		Entries []struct {
			Change int64 `json:"change_minor"`
		} `json:"entries"`
	}
	if err := json.Unmarshal([]byte(out), &shown); err != nil || code != cli.ExitOK || shown.Balance != 1505 || len(shown.Entries) != 10 || shown.Entries[0].Change != 400 {
		t.Errorf("the wallet as JSON: exit code %d, %v: %s", code, err, out)
	}
}
