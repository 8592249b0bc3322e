package simwarden

import (
	"errors"
	"fmt"
	"strings"
)

// IMSI names a subscription to the network: 6 to 15 digits, home country code first.
// Source: ITU-T E.212.
type IMSI struct{ s string }

// MSISDN is a subscriber's number: 5 to 15 digits, country code first, kept without "+".
// IoT numbers of 13 digits without country code (China, 10 or 14 first) are kept as given.
// Source: ITU-T E.164.
type MSISDN struct{ s string }

// IMEI names equipment: 15 digits, the last a Luhn digit, or 14 without it, or 16 with the
// software version (IMEISV). Kept as the 14 digits and, where given, what follows.
// Source: 3GPP TS 23.003 section 6.
type IMEI struct{ s string }

// EID names an eUICC: 32 digits whose value modulo 97 is 1.
// Source: GSMA SGP.29; ISO/IEC 7064 MOD 97-10.
type EID struct{ s string }

// What can be wrong with these numbers; test with errors.Is.
var (
	ErrIMSI   = errors.New("an IMSI has 6 to 15 digits")
	ErrMSISDN = errors.New("an MSISDN has 5 to 15 digits, country code first")
	ErrIMEI   = errors.New("an IMEI has 15 digits with a fitting check digit, 14 without it, or 16 with a software version")
	ErrEID    = errors.New("an EID has 32 digits with fitting check digits")
)

// ParseIMSI reads an IMSI; spaces are dropped. The error is ErrIMSI.
func ParseIMSI(text string) (IMSI, error) {
	s := compact(text)
	if len(s) < 6 || len(s) > 15 || !allDigits(s) {
		return IMSI{}, fmt.Errorf("%w: got %d characters", ErrIMSI, len(s))
	}
	return IMSI{s}, nil
}

// ParseMSISDN reads an MSISDN; a leading + or 00, spaces, hyphens, dots and brackets are dropped.
// A number that then begins with 0 is a national one, whose country nobody named: it is refused.
// The error is ErrMSISDN.
func ParseMSISDN(text string) (MSISDN, error) {
	s := strings.NewReplacer("(", "", ")", "", ".", "").Replace(compact(text))
	if rest, plus := strings.CutPrefix(s, "+"); plus {
		s = rest
	} else {
		s = strings.TrimPrefix(s, "00")
	}
	if len(s) < 5 || len(s) > 15 || !allDigits(s) || s[0] == '0' {
		return MSISDN{}, fmt.Errorf("%w: got %d characters", ErrMSISDN, len(s))
	}
	return MSISDN{s}, nil
}

// ParseIMEI reads an IMEI or IMEISV; spaces and hyphens are dropped. The error is ErrIMEI.
func ParseIMEI(text string) (IMEI, error) {
	s := compact(text)
	if len(s) < 14 || len(s) > 16 || !allDigits(s) || len(s) == 15 && !luhnValid(s) {
		return IMEI{}, fmt.Errorf("%w: got %d characters", ErrIMEI, len(s))
	}
	return IMEI{s}, nil
}

// ParseEID reads an EID; spaces and hyphens are dropped. The error is ErrEID.
func ParseEID(text string) (EID, error) {
	s := compact(text)
	if len(s) != 32 || !allDigits(s) || mod97(s) != 1 {
		return EID{}, fmt.Errorf("%w: got %d characters", ErrEID, len(s))
	}
	return EID{s}, nil
}

// String gives the digits, empty for the zero value.
func (v IMSI) String() string { return v.s }

// String gives the digits without "+", empty for the zero value.
func (v MSISDN) String() string { return v.s }

// String gives the digits, empty for the zero value.
func (v IMEI) String() string { return v.s }

// String gives the digits, empty for the zero value.
func (v EID) String() string { return v.s }

// SameEquipment says whether two IMEIs name one piece of equipment: their first 14 digits are
// equal, whatever check digit or software version follows.
func (v IMEI) SameEquipment(other IMEI) bool {
	return v.s != "" && other.s != "" && v.s[:14] == other.s[:14]
}

func compact(text string) string {
	if len(text) > 64 {
		return text
	}
	return strings.NewReplacer(" ", "", "-", "", "\t", "", "\u00a0", "", "\u3000", "").Replace(text)
}

func mod97(digits string) int {
	n := 0
	for i := range len(digits) {
		n = (n*10 + int(digits[i]-'0')) % 97
	}
	return n
}
