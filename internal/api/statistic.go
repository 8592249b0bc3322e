package api

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
)

// StatisticQuery says which minutes of calls to give (G9).
type StatisticQuery struct {
	Account   string
	Operation simwarden.Operation
	FromAt    time.Time // UTC; zero: an hour before UntilAt
	UntilAt   time.Time // UTC, exclusive; zero: now
	Cursor    string
	Limit     int // 0: MaxStatistics
}

// MaxStatistics is how many rows of statistics are given at a time.
const MaxStatistics = 5000

// Statistics gives the calls per minute, account, operation, purpose and outcome, oldest first.
func (s *Service) Statistics(ctx context.Context, q StatisticQuery) (Page[store.CallStat], error) {
	none := Page[store.CallStat]{}
	if q.Limit < 0 || q.Limit > MaxStatistics {
		return none, badInput("%d rows: give 1 to %d", q.Limit, MaxStatistics)
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
		return none, badInput("the range ends before it begins")
	}
	if q.Operation != "" && !isOneOf(q.Operation, simwarden.Operations()) {
		return none, notOneOf("operation", q.Operation, simwarden.Operations())
	}
	after, err := statisticAfter(q.Cursor)
	if err != nil {
		return none, err
	}
	f := store.CallStatFilter{Operation: q.Operation, FromAt: q.FromAt, UntilAt: q.UntilAt, After: after, Limit: q.Limit + 1}
	if f.AccountID, err = s.accountID(ctx, q.Account); err != nil {
		return none, err
	}
	rows, err := s.Store.CallStats(ctx, f)
	if err != nil || len(rows) <= q.Limit {
		return Page[store.CallStat]{Items: rows}, err
	}
	rows = rows[:q.Limit]
	return Page[store.CallStat]{Items: rows, Next: statisticCursor(rows[q.Limit-1])}, nil
}

// A cursor of the statistics is the key of the last row: they have no id.

func statisticCursor(c store.CallStat) string {
	c.Calls, c.LatencyMS = 0, 0
	text, _ := json.Marshal(c) // times, numbers and words
	return base64.RawURLEncoding.EncodeToString(text)
}

func statisticAfter(cursor string) (*store.CallStat, error) {
	if cursor == "" {
		return nil, nil
	}
	var c store.CallStat
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || json.Unmarshal(text, &c) != nil || c.MinuteAt.IsZero() || !cleanText(string(c.Operation)+string(c.Purpose)+c.Outcome) {
		return nil, badInput("this cursor is not one that this list gave out; begin without one")
	}
	return &c, nil
}
