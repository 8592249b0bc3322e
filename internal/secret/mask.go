package secret

import (
	"regexp"
	"strings"
)

// MaskMSISDN hides the middle of a phone number and leaves what tells people of one fleet apart:
// up to five digits at the front (country and network) and four at the end, never more than the
// number less four digits. "+8613800138000" becomes "+86138****8000". A text that holds anything
// but digits behind an optional + is hidden altogether (B12).
func MaskMSISDN(text string) string {
	digits, plus := strings.CutPrefix(text, "+")
	masked := mask(digits, 5, 4)
	if plus {
		return "+" + masked
	}
	return masked
}

// MaskIMSI hides the subscriber's own part and leaves the network (five digits of MCC and MNC, ITU-T
// E.212) and the last two digits: "460001234567890" becomes "46000********90" (B12).
func MaskIMSI(text string) string { return mask(text, 5, 2) }

// MaskIMEI hides the serial number and leaves the type allocation code (eight digits, 3GPP TS
// 23.003 section 6.2) and the last two digits: "356938035643809" becomes "35693803*****09" (B12).
func MaskIMEI(text string) string { return mask(text, 8, 2) }

// minHidden is how many digits a mask hides at least.
const minHidden = 4

// mask keeps at most head and tail digits and hides the others, at least minHidden; the head gives
// way first, then the tail.
func mask(digits string, head, tail int) string {
	if digits == "" {
		return ""
	}
	if strings.Trim(digits, "0123456789") != "" {
		return strings.Repeat("*", minHidden)
	}
	n := len(digits)
	tail = max(0, min(tail, n-minHidden))
	head = max(0, min(head, n-minHidden-tail))
	return digits[:head] + strings.Repeat("*", n-head-tail) + digits[n-tail:]
}

// Runs of 10 to 17 digits are what an MSISDN, IMSI or IMEI(SV) in the middle of a sentence looks
// like. Longer runs are ICCIDs and EIDs, which are the card's and stay.
var numberRun = regexp.MustCompile(`\+?[0-9]+`)

// MaskNumbers masks what looks like an MSISDN, IMSI or IMEI within a text, such as a carrier's
// message on its way to a record. Instants in milliseconds look alike and are masked too.
func MaskNumbers(text string) string {
	return numberRun.ReplaceAllStringFunc(text, func(run string) string {
		if n := len(strings.TrimPrefix(run, "+")); n < 10 || n > 17 {
			return run
		}
		return MaskMSISDN(run)
	})
}
