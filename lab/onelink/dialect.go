// Package onelink speaks as China Mobile's OneLink API v5 does, for the lab: everything within HTTP
// 200, one token that the next login ends, orders and jobs, groups as the only list, usage in KB as
// text by months of UTC+8, reasons for stops in twelve digits.
//
// What stands before the carrier's own machines (its gateway) answers by HTTP status: too many
// requests, server errors, maintenance.
//
// Source: the operations of OneLink v5 and its error codes, as public clients of it name them; there
// is no machine-readable definition.
package onelink

import (
	"fmt"
	"strings"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/lab"
)

// The credentials of an account, under these names. Those not given are invented.
const (
	CredentialAppID    = "appid"
	CredentialPassword = "password"
)

// The raw words of stopped SIMs: the status code, then what the stop-reason call says, with its
// description where it has one. CT and PB are the carrier's two platforms.
const (
	StoppedByRequest   = "4 000000002000"
	StoppedByCredit    = "4 000020000000"
	StoppedByExpiry    = "4 200000000000"
	StoppedByForce     = "4 000000000020"
	StoppedByRisk      = "4 000000000020 风险停机"
	StoppedPBByRequest = "02 000000002000"
)

const (
	wordActive   = "2"
	wordPBActive = "00"
)

// changeGap is the least time between two changes of one SIM.
const changeGap = 3 * time.Minute

// beijing is UTC+8, in which the carrier counts months and writes times. China has no summer time.
var beijing = time.FixedZone("UTC+8", 8*60*60)

func init() { lab.RegisterDialect("onelink", dialect{}) }

type dialect struct{}

// Words are the codes of both platforms. A SIM is of the platform whose code it shows.
func (dialect) Words() []lab.Word {
	return []lab.Word{
		{Raw: wordActive, State: simwarden.StateActive, Traffic: true},
		{Raw: StoppedByRequest, State: simwarden.StateSuspended},
		{Raw: StoppedByCredit, State: simwarden.StateSuspended},
		{Raw: StoppedByExpiry, State: simwarden.StateSuspended},
		{Raw: StoppedByForce, State: simwarden.StateSuspended},
		{Raw: StoppedByRisk, State: simwarden.StateSuspended},
		{Raw: "7", State: simwarden.StateInventory},
		{Raw: "1", State: simwarden.StateInventory},
		{Raw: "6", State: simwarden.StateTestReady, Traffic: true},
		{Raw: "9", State: simwarden.StateTerminated},
		{Raw: "8", State: simwarden.StateTerminated},
		{Raw: wordPBActive, State: simwarden.StateActive, Traffic: true},
		{Raw: "01 000000002000", State: simwarden.StateSuspended},
		{Raw: StoppedPBByRequest, State: simwarden.StateSuspended},
		{Raw: "02 000020000000", State: simwarden.StateSuspended},
		{Raw: "03", State: simwarden.StateTerminated},
		{Raw: "04", State: simwarden.StateTerminated},
		{Raw: "05", State: simwarden.StateUnknown},
		{Raw: "06", State: simwarden.StateInventory},
		{Raw: "07", State: simwarden.StateInventory},
	}
}

func (dialect) ICCIDDigits() int { return 20 }

// Key is the ICCID: this carrier has no key of its own.
func (dialect) Key(iccid string) string { return iccid }

// Zone is the one in which months are counted.
func (dialect) Zone() *time.Location { return beijing }

// Limits: one SIM is not to be changed twice within three minutes.
func (dialect) Limits() lab.Limits {
	return lab.Limits{PerSIMGap: changeGap, PerSIMGapOn: []simwarden.Operation{simwarden.OpSuspend, simwarden.OpResume}}
}

func (dialect) Open(a *lab.Account) (lab.Session, error) {
	seed := a.World().Seed() ^ lab.HashText(a.Name())
	appid, password := a.Credential(CredentialAppID), a.Credential(CredentialPassword)
	if (appid == "") != (password == "") {
		return nil, fmt.Errorf("a onelink account needs both %s and %s, or neither", CredentialAppID, CredentialPassword)
	}
	if appid == "" {
		a.SetCredential(CredentialAppID, fmt.Sprintf("200%015d", seed%1e15))
		a.SetCredential(CredentialPassword, "P"+lab.Hex(9, seed, 1))
	}
	return &session{account: a, seed: seed, seen: make(map[string]bool), orders: make(map[string]order), jobs: make(map[string]job)}, nil
}

// split takes a raw word apart: the status code, and for a stopped SIM the reason and its description.
func split(raw string) (code, reason, description string) {
	code, rest, _ := strings.Cut(raw, " ")
	reason, description, _ = strings.Cut(rest, " ")
	return code, reason, description
}

// isPB says that a raw word is one of the older platform's.
func isPB(raw string) bool {
	code, _, _ := split(raw)
	return len(code) == 2
}

func isStopped(raw string) bool {
	_, reason, _ := split(raw)
	return reason != ""
}

// Allowed: only what was stopped by request is resumed by request; nothing else is stopped than what
// is active.
func (s *session) Allowed(from, to string) bool {
	code, _, _ := split(from)
	switch to {
	case wordActive:
		return from == StoppedByRequest || code == "1" || code == "6" || code == "7"
	case wordPBActive:
		return from == StoppedPBByRequest || code == "06" || code == "07"
	case StoppedByRequest, StoppedPBByRequest:
		return code == wordActive || code == wordPBActive
	}
	return false
}

// RefusesRepeats: a SIM that is stopped, for whatever reason, is not stopped again, nor an active
// one started.
func (s *session) RefusesRepeats(from, to string) bool {
	return from == to || isStopped(from) && isStopped(to)
}

// RefusesWhilePending: an order that is under way keeps others out.
func (s *session) RefusesWhilePending() bool { return true }
