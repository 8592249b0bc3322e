package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/simwarden/simwarden"
)

// Hold is money of a wallet that is set aside, in minor units of its currency.
type Hold struct {
	ID       simwarden.HoldID   `json:"id"`
	WalletID simwarden.WalletID `json:"wallet_id"`
	simwarden.Money
	CapturedMinor int64               `json:"captured_minor"`
	State         simwarden.HoldState `json:"state"`
	PlacedAt      time.Time           `json:"placed_at"`         // UTC
	ExpiresAt     time.Time           `json:"expires_at"`        // UTC: given back then
	EndedAt       time.Time           `json:"ended_at,omitzero"` // UTC
}

const holdColumns = `id, wallet_id, amount_minor, currency, captured_minor, state, placed_at, expires_at, ended_at`

func scanHold(row pgx.Row) (Hold, error) {
	var h Hold
	var ended *time.Time
	err := one(row, &h.ID, &h.WalletID, &h.AmountMinor, &h.Currency, &h.CapturedMinor, &h.State, &h.PlacedAt, &h.ExpiresAt, &ended)
	h.PlacedAt, h.ExpiresAt, h.EndedAt = h.PlacedAt.UTC(), h.ExpiresAt.UTC(), timeOf(ended)
	return h, err
}

// AddHold writes an open hold; its entries are booked with it.
func (tx *Tx) AddHold(ctx context.Context, h Hold) (Hold, error) {
	h.State, h.PlacedAt = simwarden.HoldOpen, tx.At
	err := tx.QueryRow(ctx, `
		INSERT INTO ledger_hold (wallet_id, amount_minor, currency, placed_at, expires_at) VALUES ($1, $2, $3, $4, $5) RETURNING id`,
		h.WalletID, h.AmountMinor, h.Currency, h.PlacedAt, h.ExpiresAt).Scan(&h.ID)
	if err != nil {
		return h, fmt.Errorf("hold on wallet %d: %w", h.WalletID, err)
	}
	return h, nil
}

// DropHold removes a hold to which nothing has been booked, in the transaction that added it.
func (tx *Tx) DropHold(ctx context.Context, id simwarden.HoldID) error {
	if _, err := tx.Exec(ctx, `DELETE FROM ledger_hold WHERE id = $1`, id); err != nil {
		return fmt.Errorf("drop hold %d: %w", id, err)
	}
	return nil
}

// HoldByID gives a hold as it stands; it changes under its wallet's lock alone.
func (tx *Tx) HoldByID(ctx context.Context, id simwarden.HoldID) (Hold, error) {
	h, err := scanHold(tx.QueryRow(ctx, `SELECT `+holdColumns+` FROM ledger_hold WHERE id = $1`, id))
	if err != nil {
		return h, fmt.Errorf("hold %d: %w", id, err)
	}
	return h, nil
}

// EndHold ends an open hold; false where it had ended.
func (tx *Tx) EndHold(ctx context.Context, id simwarden.HoldID, state simwarden.HoldState, capturedMinor int64) (bool, error) {
	tag, err := tx.Exec(ctx, `
		UPDATE ledger_hold SET state = $2, captured_minor = $3, ended_at = $4 WHERE id = $1 AND state = 'open'`,
		id, string(state), capturedMinor, tx.At)
	if err != nil {
		return false, fmt.Errorf("end hold %d: %w", id, err)
	}
	return tag.RowsAffected() == 1, nil
}

// ExpiredHolds gives up to limit open holds whose time has come, without locking them.
func (tx *Tx) ExpiredHolds(ctx context.Context, limit int) ([]Hold, error) {
	return scanAll("expired holds", scanHold)(tx.Query(ctx, `
		SELECT `+holdColumns+` FROM ledger_hold WHERE `+holdDue+` ORDER BY expires_at, id LIMIT $2`, tx.At, limit))
}

// HoldsOfWallet gives up to limit holds of a wallet below one (0: from the latest), the latest first.
func (s *Store) HoldsOfWallet(ctx context.Context, id simwarden.WalletID, before simwarden.HoldID, limit int) ([]Hold, error) {
	return scanAll(fmt.Sprintf("holds of wallet %d", id), scanHold)(s.pool.Query(ctx, `
		SELECT `+holdColumns+` FROM ledger_hold WHERE wallet_id = $1 AND ($2 = 0 OR id < $2) ORDER BY id DESC LIMIT $3`, id, before, limit))
}
