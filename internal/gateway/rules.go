package gateway

import (
	"context"
	"fmt"

	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/rules"
)

// readRules compiles the table. A rule that cannot be used, which can only have come into the
// table past the store, is left out and told: the others still count.
func (g *Gateway) readRules(ctx context.Context) (map[string]*rules.RuleSet, error) {
	rows, err := g.store.ErrorRules(ctx, "")
	if err != nil {
		return nil, err
	}
	byDriver := map[string][]carrier.Rule{}
	for _, row := range rows {
		byDriver[row.Driver] = append(byDriver[row.Driver], row.Rule)
	}
	sets := make(map[string]*rules.RuleSet, len(byDriver))
	for driver, list := range byDriver {
		set, err := rules.NewRuleSet(list)
		if err != nil {
			set, err = rules.NewRuleSet(g.usable(driver, list))
		}
		if err != nil {
			return nil, fmt.Errorf("error rules of driver %s: %w", driver, err)
		}
		sets[driver] = set
	}
	return sets, nil
}

func (g *Gateway) usable(driver string, list []carrier.Rule) []carrier.Rule {
	out := make([]carrier.Rule, 0, len(list))
	for _, r := range list {
		if _, err := rules.NewRuleSet([]carrier.Rule{r}); err != nil {
			g.log.Error("gateway: an error rule is left out", "driver", driver, "error", err)
			continue
		}
		out = append(out, r)
	}
	return out
}

// ruleSet gives a driver's rules: the table's, or, where it has none of that driver yet, those
// that the driver ships.
func (g *Gateway) ruleSet(driver string) *rules.RuleSet {
	g.mu.RLock()
	set := g.rules[driver]
	g.mu.RUnlock()
	if set != nil {
		return set
	}
	set, _ = rules.NewRuleSet(nil) // nothing in it can be wrong
	if d, err := carrier.Lookup(driver); err == nil {
		if shipped, err := rules.NewRuleSet(d.Info().Rules); err == nil {
			set = shipped
		}
	}
	return set
}
