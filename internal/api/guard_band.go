package api

import (
	"context"
	"time"

	"github.com/simwarden/simwarden/internal/store"
)

// guardBandsOf is which stops a report looks at by default.
const guardBandsOf = 30 * 24 * time.Hour

// GuardBands reports how often the promises of plans with a guard band were kept, of stops ordered
// since an instant (zero: the last 30 days), of all accounts where account is empty (E12).
func (s *Service) GuardBands(ctx context.Context, account string, since time.Time) ([]store.GuardBandReport, error) {
	if since.IsZero() {
		since = s.Store.Now().Add(-guardBandsOf)
	}
	id, err := s.accountID(ctx, account)
	if err != nil {
		return nil, err
	}
	return s.Store.GuardBandReports(ctx, id, since)
}
