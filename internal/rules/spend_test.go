package rules_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/rules"
)

func TestSpend(t *testing.T) {
	late := april.AddDate(0, 1, 0)
	unlimited := mainPlan(10)
	unlimited.AllowanceBytes = simwarden.UnlimitedBytes
	tests := []struct {
		name  string
		subs  []rules.SubscriptionFact
		delta int64
		want  []rules.Spent
	}{
		{"L5: the main plan first", []rules.SubscriptionFact{addon(2, 500, 0, april), mainPlan(0)}, 100, []rules.Spent{{1, 100, false}}},
		{"L5: used up to the last byte is exhausted", []rules.SubscriptionFact{mainPlan(999_999_900)}, 100, []rules.Spent{{1, 100, true}}},
		{"L5: then the add-on that ends first", []rules.SubscriptionFact{addon(3, 500, 0, late), addon(2, 500, 0, april), mainPlan(1_000_000_000)}, 100, []rules.Spent{{2, 100, false}}},
		{"L5: then the next, by number where they end together", []rules.SubscriptionFact{addon(3, 500, 0, april), addon(2, 500, 450, april), mainPlan(999_999_999)}, 100, []rules.Spent{{1, 1, true}, {2, 50, true}, {3, 49, false}}},
		{"L5: what exceeds all is the main plan's", []rules.SubscriptionFact{mainPlan(999_999_999), addon(2, 500, 0, april)}, 1000, []rules.Spent{{1, 500, true}, {2, 500, true}}},
		{"L5: without a main plan the last add-on's", []rules.SubscriptionFact{addon(3, 500, 400, late), addon(2, 500, 400, april)}, 1000, []rules.Spent{{2, 100, true}, {3, 900, true}}},
		{"L5: a plan without limit bears it all", []rules.SubscriptionFact{unlimited, addon(2, 500, 0, april)}, math.MaxInt64, []rules.Spent{{1, math.MaxInt64, false}}},
		{"L5: a subscription that has ended bears nothing", []rules.SubscriptionFact{mainPlan(0), addon(2, 500, 0, noon)}, 2_000_000_000, []rules.Spent{{1, 2_000_000_000, true}}},
		{"L5: usage already past the allowance takes no room", []rules.SubscriptionFact{mainPlan(1_500_000_000), addon(2, 500, 0, april)}, 10, []rules.Spent{{2, 10, false}}},
		{"nothing in force, nothing spent", nil, 10, nil},
		{"U2: never a negative delta", []rules.SubscriptionFact{mainPlan(0)}, -1, nil},
		{"no delta, nothing spent", []rules.SubscriptionFact{mainPlan(0)}, 0, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := rules.Spend(tt.subs, tt.delta, noon); !slices.Equal(got, tt.want) {
				t.Errorf("spent %+v, want %+v", got, tt.want)
			}
		})
	}
}

// Every byte belongs to exactly one subscription, and an add-on is touched only when the main plan
// is full (L5).
func TestSpendSums(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var subs []rules.SubscriptionFact
		for i := range rapid.IntRange(1, 6).Draw(t, "subscriptions") {
			subs = append(subs, rules.SubscriptionFact{
				ID: simwarden.SubscriptionID(i + 1), Kind: rapid.SampledFrom([]simwarden.PlanKind{"main", "addon"}).Draw(t, "kind"),
				StartAt: noon.Add(-time.Hour), EndAt: noon.Add(time.Duration(rapid.IntRange(-1, 3).Draw(t, "ends")) * time.Hour),
				AllowanceBytes: rapid.OneOf(rapid.Just(simwarden.UnlimitedBytes), rapid.Int64Range(0, 100), rapid.Int64Range(0, math.MaxInt64)).Draw(t, "allowance"),
				UsedBytes:      rapid.OneOf(rapid.Int64Range(0, 100), rapid.Int64Range(0, math.MaxInt64)).Draw(t, "used"),
			})
		}
		delta := rapid.OneOf(rapid.Int64Range(1, 200), rapid.Int64Range(1, math.MaxInt64)).Draw(t, "delta")
		spent := rules.Spend(subs, delta, noon)
		inForce := slices.ContainsFunc(subs, func(s rules.SubscriptionFact) bool { return s.InForce(noon) })
		if !inForce {
			if spent != nil {
				t.Fatalf("nothing is in force, yet %+v was spent", spent)
			}
			return
		}
		var sum int64
		seen := map[simwarden.SubscriptionID]bool{}
		for _, s := range spent {
			sub := subs[s.ID-1]
			if !sub.InForce(noon) || s.UsedBytes <= 0 || seen[s.ID] {
				t.Fatalf("spent %+v on %+v", s, sub)
			}
			seen[s.ID] = true
			sum += s.UsedBytes
		}
		if sum != delta {
			t.Fatalf("the parts sum to %d, the delta is %d: %+v", sum, delta, spent)
		}
		for _, m := range subs {
			full := m.AllowanceBytes != simwarden.UnlimitedBytes && m.UsedBytes >= m.AllowanceBytes
			if m.Kind != simwarden.PlanMain || !m.InForce(noon) || full || seen[m.ID] {
				continue
			}
			for _, s := range spent {
				if subs[s.ID-1].Kind == simwarden.PlanAddon {
					t.Fatalf("add-on %d was spent while main plan %d has room", s.ID, m.ID)
				}
			}
		}
	})
}

func TestL6TheirOwnFirstThenThePool(t *testing.T) {
	for _, tt := range []struct {
		name  string
		subs  []rules.SubscriptionFact
		delta int64
		want  []rules.Spent
		pool  int64
	}{
		{"what fits is the main plan's, and the pool is left alone", []rules.SubscriptionFact{mainPlan(0)}, 100, []rules.Spent{{1, 100, false}}, 0},
		{"main plan, then add-ons, then the pool", []rules.SubscriptionFact{addon(2, 500, 0, april), mainPlan(999_999_999)}, 1000, []rules.Spent{{1, 1, true}, {2, 500, true}}, 499},
		{"what exceeds all is the pool's, not the main plan's", []rules.SubscriptionFact{mainPlan(1_000_000_000)}, 7, nil, 7},
		{"a plan past its allowance takes nothing back from the pool", []rules.SubscriptionFact{mainPlan(2_000_000_000)}, 7, nil, 7},
		{"with nothing in force the pool bears it", nil, 7, nil, 7},
		{"U2: never a negative delta", []rules.SubscriptionFact{mainPlan(0)}, -1, nil, 0},
	} {
		got, pool := rules.SpendPooled(tt.subs, tt.delta, noon)
		if !slices.Equal(got, tt.want) || pool != tt.pool {
			t.Errorf("%s: spent %+v and %d of the pool, want %+v and %d", tt.name, got, pool, tt.want, tt.pool)
		}
	}
}
