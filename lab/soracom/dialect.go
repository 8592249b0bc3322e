// Package soracom speaks as Soracom's Air API does, for the lab: its login, SIM objects, pages by
// a key in a header, and usage statistics.
//
// Source: Soracom's OpenAPI definition, version 20260604 (soracom-cli, MIT).
package soracom

import (
	"fmt"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/lab"
)

// The credentials of an account, under these names. Those not given are invented.
const (
	CredentialKeyID = "auth_key_id"
	CredentialKey   = "auth_key"
)

func init() { lab.RegisterDialect("soracom", dialect{}) }

type dialect struct{}

// Words are the statuses of a SIM object. Inactive, standby and suspended differ in fees only; a
// SIM in "ready" becomes active by itself when first used, which the lab leaves to its caller.
func (dialect) Words() []lab.Word {
	return []lab.Word{
		{Raw: "active", State: simwarden.StateActive, Traffic: true},
		{Raw: "suspended", State: simwarden.StateSuspended},
		{Raw: "inactive", State: simwarden.StateSuspended},
		{Raw: "standby", State: simwarden.StateSuspended},
		{Raw: "ready", State: simwarden.StateInventory},
		{Raw: "terminated", State: simwarden.StateTerminated},
	}
}

func (dialect) ICCIDDigits() int { return 19 }

// Key is the SIM id: the ICCID of the first profile.
func (dialect) Key(iccid string) string { return iccid }

func (dialect) Open(a *lab.Account) (lab.Session, error) {
	seed := a.World().Seed() ^ lab.HashText(a.Name())
	keyID, key := a.Credential(CredentialKeyID), a.Credential(CredentialKey)
	if (keyID == "") != (key == "") {
		return nil, fmt.Errorf("a soracom account needs both %s and %s, or neither", CredentialKeyID, CredentialKey)
	}
	if keyID == "" {
		a.SetCredential(CredentialKeyID, "keyId-"+lab.Hex(28, seed, 1))
		a.SetCredential(CredentialKey, "secret-"+lab.Hex(60, seed, 2))
	}
	return &session{account: a, seed: seed, operatorID: fmt.Sprintf("OP%010d", seed%1e10), tokens: make(map[string]token)}, nil
}

// Allowed: nothing leaves "terminated", and a SIM in use does not go back to "ready".
func (s *session) Allowed(from, to string) bool { return from != "terminated" && to != "ready" }

// RefusesWhilePending: changes are synchronous at this carrier; a new one replaces one that the
// lab was told to delay.
func (s *session) RefusesWhilePending() bool { return false }
