package ledger_test

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/ledger"
)

func TestM1AmountsAreReadAsPeopleWriteThem(t *testing.T) {
	for _, row := range []struct {
		name, text string
		want       simwarden.Money
		err        error
	}{
		{"the code behind it", "9.90EUR", simwarden.Money{AmountMinor: 990, Currency: "EUR"}, nil},
		{"a space between", "9.9 eur", simwarden.Money{AmountMinor: 990, Currency: "EUR"}, nil},
		{"the code before it", "CNY 30", simwarden.Money{AmountMinor: 3000, Currency: "CNY"}, nil},
		{"a currency without decimals", "300JPY", simwarden.Money{AmountMinor: 300, Currency: "JPY"}, nil},
		{"a currency with three", "1.005 KWD", simwarden.Money{AmountMinor: 1005, Currency: "KWD"}, nil},
		{"zeros behind what the currency has", "3.000JPY", simwarden.Money{AmountMinor: 3, Currency: "JPY"}, nil},
		{"a credit note", "-0.05 USD", simwarden.Money{AmountMinor: -5, Currency: "USD"}, nil},
		{"the largest", "90071992547409.91EUR", simwarden.Money{AmountMinor: simwarden.MaxMinor, Currency: "EUR"}, nil},
		{"one above the largest", "90071992547409.92EUR", simwarden.Money{}, ledger.ErrAmount},
		{"too many decimals", "9.905EUR", simwarden.Money{}, ledger.ErrAmount},
		{"a separator of thousands", "1,000EUR", simwarden.Money{}, ledger.ErrAmount},
		{"a comma for the point", "9,90EUR", simwarden.Money{}, ledger.ErrAmount},
		{"two signs", "--1EUR", simwarden.Money{}, ledger.ErrAmount},
		{"a sign within", "1-1EUR", simwarden.Money{}, ledger.ErrAmount},
		{"no digits before the point", ".5EUR", simwarden.Money{}, ledger.ErrAmount},
		{"no digits behind it", "5.EUR", simwarden.Money{}, ledger.ErrAmount},
		{"no number", "EUR", simwarden.Money{}, ledger.ErrAmount},
		{"no currency", "9.90", simwarden.Money{}, ledger.ErrCurrency},
		{"a currency that is none", "9.90ZZZ", simwarden.Money{}, ledger.ErrCurrency},
		{"nothing", "", simwarden.Money{}, ledger.ErrCurrency},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got, err := ledger.Parse(row.text); got != row.want || !errors.Is(err, row.err) || row.err == nil && err != nil {
				t.Errorf("%q is read as %+v, %v; want %+v, %v", row.text, got, err, row.want, row.err)
			}
		})
	}
}

func TestM1WhatIsFormattedIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := simwarden.Money{AmountMinor: rapid.Int64Range(-simwarden.MaxMinor, simwarden.MaxMinor).Draw(t, "minor"),
			Currency: rapid.SampledFrom([]string{"EUR", "CNY", "JPY", "KWD", "USD"}).Draw(t, "currency")}
		if got, err := ledger.Parse(ledger.Format(m)); err != nil || got != m {
			t.Fatalf("%s is read as %+v, %v; want %+v", ledger.Format(m), got, err, m)
		}
	})
}
