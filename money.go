package simwarden

// WalletID and the others are ids of the ledger's rows. Zero is "none".
type (
	WalletID            int64
	LedgerTransactionID int64
	HoldID              int64
)

// MaxMinor bounds every amount and balance, in minor units: the largest integer that any reader of
// JSON keeps exactly (RFC 8259 section 6).
const MaxMinor int64 = 1<<53 - 1

// Money is an amount in the minor units of a currency (ISO 4217: cents of EUR, yen of JPY), M1.
type Money struct {
	AmountMinor int64  `json:"amount_minor"`
	Currency    string `json:"currency"`
}

// TransactionKind says what a transaction of the ledger is.
type TransactionKind string

// The kinds of ledger transaction. A hold sets money of a wallet aside, a capture pays with it, a
// release gives it back.
const (
	TransactionTopUp      TransactionKind = "top_up"
	TransactionPurchase   TransactionKind = "purchase"
	TransactionRefund     TransactionKind = "refund"
	TransactionAdjustment TransactionKind = "adjustment"
	TransactionHold       TransactionKind = "hold"
	TransactionCapture    TransactionKind = "capture"
	TransactionRelease    TransactionKind = "release"
)

// TransactionKinds lists every kind of ledger transaction.
func TransactionKinds() []TransactionKind {
	return []TransactionKind{TransactionTopUp, TransactionPurchase, TransactionRefund, TransactionAdjustment,
		TransactionHold, TransactionCapture, TransactionRelease}
}

// HoldState is where money that was set aside is.
type HoldState string

// The states of a hold.
const (
	HoldOpen     HoldState = "open"
	HoldCaptured HoldState = "captured"
	HoldReleased HoldState = "released"
)
