package store

import (
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/simwarden/simwarden"
)

// scanAll gives a function that reads all rows of a query with scan; what says in its error what was
// read. The list is never nil, so that it is [] in JSON.
func scanAll[T any](what string, scan func(pgx.Row) (T, error)) func(pgx.Rows, error) ([]T, error) {
	return func(rows pgx.Rows, err error) ([]T, error) {
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (T, error) { return scan(row) })
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		return list, nil
	}
}

// scanID reads a row that is one id.
func scanID[T simwarden.AccountID | simwarden.SIMID | simwarden.SubscriptionID | simwarden.PoolID | simwarden.PoolMemberID](row pgx.Row) (id T, err error) {
	err = row.Scan(&id)
	return id, err
}
