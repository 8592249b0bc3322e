package cli

import (
	"testing"
	"time"

	"github.com/simwarden/simwarden/internal/store"
)

func TestE11ExplainSaysAsOfWhenUsageIsWhereTheCarrierIsLate(t *testing.T) {
	read := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	for _, row := range []struct {
		name   string
		trueAt time.Time
		want   string
	}{
		{"true when it was read", read, ""},
		{"the carrier does not say", time.Time{}, ""},
		{"daily figures, of midnight in UTC+8", time.Date(2026, 5, 3, 16, 0, 0, 0, time.UTC), ", as of 2026-05-03 16:00:00Z"},
	} {
		if got := late(store.SIM{UsageReadAt: read, UsageTrueAt: row.trueAt}); got != row.want {
			t.Errorf("%s: %q, want %q", row.name, got, row.want)
		}
	}
}
