package api

import (
	"context"
	"time"

	"github.com/simwarden/simwarden/internal/store"
)

// StatisticQuery says which minutes of calls to give (G9).
type StatisticQuery struct {
	Account string
	FromAt  time.Time // UTC; zero: an hour before UntilAt
	UntilAt time.Time // UTC, exclusive; zero: now
	Limit   int       // 0: MaxStatistics
}

// MaxStatistics is how many rows of statistics are given at a time.
const MaxStatistics = 5000

// Statistics gives the calls per minute, account, operation, purpose and outcome, oldest first.
func (s *Service) Statistics(ctx context.Context, q StatisticQuery) ([]store.CallStat, error) {
	if q.Limit < 0 || q.Limit > MaxStatistics {
		return nil, badInput("%d rows: give 1 to %d", q.Limit, MaxStatistics)
	}
	if q.Limit == 0 {
		q.Limit = MaxStatistics
	}
	if q.UntilAt.IsZero() {
		q.UntilAt = s.Store.Now()
	}
	if q.FromAt.IsZero() {
		q.FromAt = q.UntilAt.Add(-time.Hour)
	}
	if !q.FromAt.Before(q.UntilAt) {
		return nil, badInput("the range ends before it begins")
	}
	account, err := s.accountID(ctx, q.Account)
	if err != nil {
		return nil, err
	}
	return s.Store.CallStats(ctx, account, q.FromAt, q.UntilAt, q.Limit)
}
