package ledger

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/text/currency"

	"github.com/simwarden/simwarden"
)

// Parse reads an amount as people write it, its currency before or behind it: 9.90EUR, 9.90 EUR,
// EUR 9.90, -3JPY. What Format writes it reads. The error wraps ErrAmount or ErrCurrency.
func Parse(text string) (simwarden.Money, error) {
	text = strings.TrimSpace(text)
	code := strings.TrimLeft(text, "+-0123456789., ")
	number := strings.TrimSuffix(text, code)
	if i := strings.IndexAny(text, "+-0123456789."); i > 0 {
		code, number = text[:i], text[i:]
	}
	return ParseAmount(number, strings.TrimSpace(code))
}

// ParseAmount reads a decimal number of a currency's main unit (ISO 4217), with a point and without
// separators of thousands, as minor units: 9.9 of EUR are 990. More decimals than the currency has
// are refused, unless they are zeros. The error wraps ErrAmount or ErrCurrency.
func ParseAmount(number, code string) (simwarden.Money, error) {
	code = strings.ToUpper(code)
	if err := CheckCurrency(code); err != nil {
		return simwarden.Money{}, err
	}
	bad := fmt.Errorf("%w: %.32q is no amount of %s; write it as 9.90, with a point and without separators of thousands", ErrAmount, number, code)
	unit, err := currency.ParseISO(code)
	if err != nil {
		return simwarden.Money{}, bad
	}
	digits, _ := currency.Standard.Rounding(unit)
	number = strings.TrimSpace(number)
	unsigned := strings.TrimLeft(number, "+-")
	if len(number)-len(unsigned) > 1 {
		return simwarden.Money{}, bad
	}
	whole, fraction, pointed := strings.Cut(unsigned, ".")
	if pointed && fraction == "" || whole == "" || strings.Trim(whole+fraction, "0123456789") != "" {
		return simwarden.Money{}, bad
	}
	if fraction = strings.TrimRight(fraction, "0"); len(fraction) > digits {
		return simwarden.Money{}, fmt.Errorf("%w: %.32q has more decimals than the %d of %s", ErrAmount, number, digits, code)
	}
	minor, err := strconv.ParseInt(whole+fraction+strings.Repeat("0", digits-len(fraction)), 10, 64)
	if err != nil || minor > simwarden.MaxMinor {
		return simwarden.Money{}, fmt.Errorf("%w: %.32q is above what can be booked", ErrAmount, number)
	}
	if strings.HasPrefix(number, "-") {
		minor = -minor
	}
	return simwarden.Money{AmountMinor: minor, Currency: code}, nil
}
