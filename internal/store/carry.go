package store

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

type carryKey struct{}

// Carry gives a context with which every read and every InTx of this store happens in the
// transaction, so that a request of several steps commits with what it answers (F51). The steps come
// one after the other: a transaction is no thing for several goroutines.
func Carry(ctx context.Context, tx *Tx) context.Context {
	return context.WithValue(ctx, carryKey{}, tx)
}

// carried is the transaction that ctx carries; nil for none.
func carried(ctx context.Context) *Tx {
	tx, _ := ctx.Value(carryKey{}).(*Tx)
	return tx
}

// pool is a pool of connections, whose place is taken by the transaction that a context carries.
type pool struct{ *pgxpool.Pool }

func (p pool) target(ctx context.Context) execer {
	if tx := carried(ctx); tx != nil {
		return tx
	}
	return p.Pool
}

// Exec executes in the carried transaction, else on a connection of its own.
func (p pool) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return p.target(ctx).Exec(ctx, sql, args...)
}

// Query asks in the carried transaction, else on a connection of its own.
func (p pool) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return p.target(ctx).Query(ctx, sql, args...)
}

// QueryRow asks in the carried transaction, else on a connection of its own.
func (p pool) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return p.target(ctx).QueryRow(ctx, sql, args...)
}
