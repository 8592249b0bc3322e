// Package supersim speaks as Twilio's Super SIM API does, for the lab: Basic authentication, form
// bodies, pages by a link in the body, changes that are done (200) or scheduled (202), and usage
// records in bytes.
//
// Source: Twilio's OpenAPI definition of Super SIM (twilio-oai, MIT) and its error dictionary.
package supersim

import (
	"crypto/subtle"
	"fmt"
	"net/http"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/lab"
)

// The credentials of an account, under these names: the account's own pair, an API key, or both.
// Where neither is given, the account's own pair is invented.
const (
	CredentialAccountSID   = "account_sid"
	CredentialAuthToken    = "auth_token"
	CredentialAPIKeySID    = "api_key_sid"
	CredentialAPIKeySecret = "api_key_secret"
)

const scheduled = "scheduled" // the status of a SIM whose change is not done

func init() { lab.RegisterDialect("supersim", dialect{}) }

type dialect struct{}

// Words are the statuses of a Sim but "scheduled", which a pending one shows. A SIM in "ready" has
// a small allowance and becomes active by itself when that is used; here it uses nothing.
func (dialect) Words() []lab.Word {
	return []lab.Word{
		{Raw: "active", State: simwarden.StateActive, Traffic: true},
		{Raw: "inactive", State: simwarden.StateSuspended},
		{Raw: "new", State: simwarden.StateInventory},
		{Raw: "ready", State: simwarden.StateTestReady},
	}
}

func (dialect) ICCIDDigits() int { return 20 }

// Key is the SID of a Sim.
func (dialect) Key(iccid string) string { return "HS" + lab.Hex(32, lab.HashText(iccid)) }

func (dialect) Open(a *lab.Account) (lab.Session, error) {
	seed := a.World().Seed() ^ lab.HashText(a.Name())
	s := &session{account: a, accountSID: a.Credential(CredentialAccountSID), fleetSID: "HF" + lab.Hex(32, seed, 3)}
	own, key := a.Credential(CredentialAuthToken), a.Credential(CredentialAPIKeySID)
	if (key == "") != (a.Credential(CredentialAPIKeySecret) == "") {
		return nil, fmt.Errorf("a supersim account needs both %s and %s, or neither", CredentialAPIKeySID, CredentialAPIKeySecret)
	}
	if s.accountSID == "" {
		s.accountSID = "AC" + lab.Hex(32, seed, 1)
		a.SetCredential(CredentialAccountSID, s.accountSID)
	}
	if own == "" && key == "" {
		a.SetCredential(CredentialAuthToken, lab.Hex(32, seed, 2))
	}
	return s, nil
}

type session struct {
	account    *lab.Account
	accountSID string
	fleetSID   string
}

// Authorized checks Basic authentication with the account's own pair or the API key's.
func (s *session) Authorized(r *http.Request, _ *lab.Request, _ time.Time) bool {
	user, password, ok := r.BasicAuth()
	return ok && (s.matches(user, password, CredentialAccountSID, CredentialAuthToken) ||
		s.matches(user, password, CredentialAPIKeySID, CredentialAPIKeySecret))
}

func (s *session) matches(user, password, userName, passwordName string) bool {
	wantUser, wantPassword := s.account.Credential(userName), s.account.Credential(passwordName)
	return wantUser != "" && wantPassword != "" &&
		subtle.ConstantTimeCompare([]byte(user), []byte(wantUser)) == 1 &&
		subtle.ConstantTimeCompare([]byte(password), []byte(wantPassword)) == 1
}

// ExpireTokens does nothing: each request carries the credentials themselves.
func (s *session) ExpireTokens() {}

// Allowed: nothing goes back to "new", and an active SIM not to "ready" (error 83010).
func (s *session) Allowed(from, to string) bool {
	return to != "new" && (to != "ready" || from != "active")
}

// RefusesWhilePending: an update that is scheduled keeps others out (error 83009).
func (s *session) RefusesWhilePending() bool { return true }
