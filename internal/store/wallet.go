package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/simwarden/simwarden"
)

// ErrWalletExists says that a wallet with that name is there already.
var ErrWalletExists = errors.New("a wallet with this name exists already")

// Wallet is money that pays for plans. All amounts are in minor units of its currency.
type Wallet struct {
	ID               simwarden.WalletID `json:"id"`
	Name             string             `json:"name"`
	Currency         string             `json:"currency"`
	CreditLimitMinor int64              `json:"credit_limit_minor"` // how far below zero it may go
	BalanceMinor     int64              `json:"balance_minor"`      // without what is held
	HeldMinor        int64              `json:"held_minor"`
	CreatedAt        time.Time          `json:"created_at"` // UTC
}

// AvailableMinor is what can be spent now.
func (w Wallet) AvailableMinor() int64 { return w.BalanceMinor + w.CreditLimitMinor }

const walletColumns = `w.id, w.name, w.currency, w.credit_limit_minor, a.balance_minor, h.balance_minor, w.created_at
	FROM wallet w
	JOIN ledger_account a ON a.wallet_id = w.id AND a.kind = 'wallet'
	JOIN ledger_account h ON h.wallet_id = w.id AND h.kind = 'held' `

func scanWallet(row pgx.Row) (Wallet, error) {
	var w Wallet
	err := one(row, &w.ID, &w.Name, &w.Currency, &w.CreditLimitMinor, &w.BalanceMinor, &w.HeldMinor, &w.CreatedAt)
	w.CreatedAt = w.CreatedAt.UTC()
	return w, err
}

func wallets(ctx context.Context, db execer, rest string, args ...any) ([]Wallet, error) {
	rows, err := db.Query(ctx, `SELECT `+walletColumns+rest, args...)
	if err != nil {
		return nil, fmt.Errorf("wallets: %w", err)
	}
	defer rows.Close()
	out := []Wallet{}
	for rows.Next() {
		w, err := scanWallet(rows)
		if err != nil {
			return nil, fmt.Errorf("wallets: %w", err)
		}
		out = append(out, w)
	}
	return out, rows.Err()
}

// AddWallet adds an empty wallet with its accounts, and those of the house in its currency; the
// caller has checked name, currency and limit. ErrWalletExists where the name is taken.
func (tx *Tx) AddWallet(ctx context.Context, w Wallet) (Wallet, error) {
	err := tx.QueryRow(ctx, `
		INSERT INTO wallet (name, currency, credit_limit_minor, created_at) VALUES ($1, $2, $3, $4) RETURNING id`,
		w.Name, w.Currency, w.CreditLimitMinor, tx.At).Scan(&w.ID)
	if IsUnique(err, "wallet_name") {
		return w, fmt.Errorf("%w: %q", ErrWalletExists, w.Name)
	}
	if err != nil {
		return w, fmt.Errorf("add wallet %q: %w", w.Name, err)
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO ledger_account (wallet_id, kind, currency) VALUES ($1, 'wallet', $2), ($1, 'held', $2)`, w.ID, w.Currency)
	if err != nil {
		return w, fmt.Errorf("add wallet %q: %w", w.Name, err)
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO ledger_account (kind, currency)
		SELECT unnest(ARRAY['adjustments', 'cash', 'refunds', 'revenue']), $1
		ON CONFLICT (currency, kind) WHERE wallet_id IS NULL DO NOTHING`, w.Currency)
	if err != nil {
		return w, fmt.Errorf("add wallet %q: %w", w.Name, err)
	}
	w.BalanceMinor, w.HeldMinor, w.CreatedAt = 0, 0, tx.At
	return w, nil
}

// WalletByID gives a wallet as it stands, without its lock.
func (tx *Tx) WalletByID(ctx context.Context, id simwarden.WalletID) (Wallet, error) {
	w, err := scanWallet(tx.QueryRow(ctx, `SELECT `+walletColumns+`WHERE w.id = $1`, id))
	if err != nil {
		return w, fmt.Errorf("wallet %d: %w", id, err)
	}
	return w, nil
}

// WalletByName finds a wallet as people name it.
func (tx *Tx) WalletByName(ctx context.Context, name string) (Wallet, error) {
	w, err := scanWallet(tx.QueryRow(ctx, `SELECT `+walletColumns+`WHERE w.name = $1`, name))
	if err != nil {
		return w, fmt.Errorf("wallet %q: %w", name, err)
	}
	return w, nil
}

// Wallets gives up to limit wallets whose name sorts behind after, by name.
func (s *Store) Wallets(ctx context.Context, after string, limit int) ([]Wallet, error) {
	return wallets(ctx, s.pool, `WHERE w.name > $1 ORDER BY w.name LIMIT $2`, after, limit)
}

// LockWallets locks wallets in the order of their ids, for the rest of the transaction, and gives
// them as they stand; ids that do not exist are left out. It comes after the locks of assets.
func (tx *Tx) LockWallets(ctx context.Context, ids []simwarden.WalletID) (map[simwarden.WalletID]*Wallet, error) {
	// A statement of its own: one that waits for a lock still sees balances as they were before.
	if _, err := tx.Exec(ctx, `SELECT FROM wallet WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE`, ids); err != nil {
		return nil, fmt.Errorf("lock %d wallets: %w", len(ids), err)
	}
	list, err := wallets(ctx, tx, `WHERE w.id = ANY($1)`, ids)
	if err != nil {
		return nil, err
	}
	out := make(map[simwarden.WalletID]*Wallet, len(list))
	for i := range list {
		out[list[i].ID] = &list[i]
	}
	return out, nil
}

// SetCreditLimit changes how far below zero a wallet, locked before, may go; the caller has compared
// it with what the wallet owes.
func (tx *Tx) SetCreditLimit(ctx context.Context, id simwarden.WalletID, limitMinor int64) error {
	if _, err := tx.Exec(ctx, `UPDATE wallet SET credit_limit_minor = $2 WHERE id = $1`, id, limitMinor); err != nil {
		return fmt.Errorf("credit limit of wallet %d: %w", id, err)
	}
	return nil
}

// WalletsOfAssets says which wallet pays for each asset; those without one are left out.
func (tx *Tx) WalletsOfAssets(ctx context.Context, assets []Asset) (map[Asset]simwarden.WalletID, error) {
	sims, devices := assetIDs(assets)
	rows, err := tx.Query(ctx, `
		SELECT coalesce(sim_id, 0), coalesce(device_id, 0), wallet_id FROM wallet_asset
		WHERE sim_id = ANY($1) OR device_id = ANY($2)`, sims, devices)
	if err != nil {
		return nil, fmt.Errorf("wallets of %d assets: %w", len(assets), err)
	}
	defer rows.Close()
	out := map[Asset]simwarden.WalletID{}
	for rows.Next() {
		var a Asset
		var id simwarden.WalletID
		if err := rows.Scan(&a.SIMID, &a.DeviceID, &id); err != nil {
			return nil, fmt.Errorf("wallets of %d assets: %w", len(assets), err)
		}
		out[a] = id
	}
	return out, rows.Err()
}

// AssignWallet lets a wallet pay for an asset, locked before, from now on; 0 takes its wallet away.
func (tx *Tx) AssignWallet(ctx context.Context, a Asset, id simwarden.WalletID, by string) error {
	sim, device := nullID(int64(a.SIMID)), nullID(int64(a.DeviceID))
	if _, err := tx.Exec(ctx, `DELETE FROM wallet_asset WHERE sim_id = $1 OR device_id = $2`, sim, device); err != nil {
		return fmt.Errorf("assign wallet %d: %w", id, err)
	}
	if id != 0 {
		_, err := tx.Exec(ctx, `
			INSERT INTO wallet_asset (wallet_id, sim_id, device_id, assigned_at, assigned_by) VALUES ($1, $2, $3, $4, $5)`,
			id, sim, device, tx.At, by)
		if err != nil {
			return fmt.Errorf("assign wallet %d: %w", id, err)
		}
	}
	_, err := tx.Exec(ctx, `
		UPDATE renewal_wait SET wallet_id = $3, due_at = $4 WHERE sim_id = $1 OR device_id = $2`, sim, device, nullID(int64(id)), tx.At)
	if err != nil {
		return fmt.Errorf("assign wallet %d: %w", id, err)
	}
	return nil
}
