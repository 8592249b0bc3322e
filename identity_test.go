package simwarden_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/simwarden/simwarden"
)

func TestParseNumbers(t *testing.T) {
	imsi := func(s string) (string, error) { v, err := simwarden.ParseIMSI(s); return v.String(), err }
	msisdn := func(s string) (string, error) { v, err := simwarden.ParseMSISDN(s); return v.String(), err }
	imei := func(s string) (string, error) { v, err := simwarden.ParseIMEI(s); return v.String(), err }
	eid := func(s string) (string, error) { v, err := simwarden.ParseEID(s); return v.String(), err }
	tests := []struct {
		name, text, want string
		parse            func(string) (string, error)
		err              error
	}{
		{"E.212: an IMSI", "460 00-1234567890", "460001234567890", imsi, nil},
		{"E.212: too short", "46000", "", imsi, simwarden.ErrIMSI},
		{"E.212: too long", "4600012345678901", "", imsi, simwarden.ErrIMSI},
		{"E.212: letters", "46000123456789A", "", imsi, simwarden.ErrIMSI},
		{"E.212: a flood", strings.Repeat("4", 100), "", imsi, simwarden.ErrIMSI},

		{"E.164: with a plus", "+86 138-0000-0000", "8613800000000", msisdn, nil},
		{"E.164: with 00", "0049 (170) 1234.567", "491701234567", msisdn, nil},
		{"E.164: an IoT number of thirteen digits", "1064812345678", "1064812345678", msisdn, nil},
		{"E.164: a national number, whose country nobody named", "0170 1234567", "", msisdn, simwarden.ErrMSISDN},
		{"E.164: two pluses", "++4917012345", "", msisdn, simwarden.ErrMSISDN},
		{"E.164: a plus and 00", "+004917012345", "", msisdn, simwarden.ErrMSISDN},
		{"E.164: too long", "+4912345678901234", "", msisdn, simwarden.ErrMSISDN},
		{"E.164: nothing", "", "", msisdn, simwarden.ErrMSISDN},

		{"TS 23.003: an IMEI", "49-015420-323751-8", "490154203237518", imei, nil},
		{"TS 23.003: without its check digit", "49015420323751", "49015420323751", imei, nil},
		{"TS 23.003: with a software version", "4901542032375112", "4901542032375112", imei, nil},
		{"TS 23.003: a wrong check digit", "490154203237517", "", imei, simwarden.ErrIMEI},
		{"TS 23.003: too short", "4901542032375", "", imei, simwarden.ErrIMEI},

		{"SGP.29: an EID", "89049032 12345123 45123456 78901235", "89049032123451234512345678901235", eid, nil},
		{"SGP.29: wrong check digits", "89049032123451234512345678901236", "", eid, simwarden.ErrEID},
		{"SGP.29: too short", "8904903212345123451234567890123", "", eid, simwarden.ErrEID},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.parse(tt.text)
			if got != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("%q is %q, %v; want %q, %v", tt.text, got, err, tt.want, tt.err)
			}
			if err != nil && len(tt.text) > 4 && strings.Contains(err.Error(), tt.text) {
				t.Errorf("B12: the error holds the number: %v", err)
			}
		})
	}
}

func TestSameEquipment(t *testing.T) {
	parse := func(s string) simwarden.IMEI {
		v, err := simwarden.ParseIMEI(s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	whole, bare, other := parse("490154203237518"), parse("4901542032375100"), parse("49015420323752")
	if !whole.SameEquipment(bare) || whole.SameEquipment(other) {
		t.Error("the first fourteen digits name the equipment, nothing else does")
	}
	if whole.SameEquipment(simwarden.IMEI{}) || (simwarden.IMEI{}).SameEquipment(simwarden.IMEI{}) {
		t.Error("no IMEI is no equipment")
	}
}
