package reconcile

import (
	"context"
	"slices"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/store"
)

// bulkPriority is a bulk action's place among waiting commands (G5): behind a person's single click,
// which must not wait for 100,000 others, and behind what plans and money demand.
const bulkPriority = 70

// Bulk does for some SIMs of a bulk action what Manual does for one: hold, command, event and audit
// row (E3, R2). A SIM that a person has acted on alone since the action was asked for is left as that
// person wanted it. The caller holds the action's lock and writes the results in this transaction.
func Bulk(ctx context.Context, tx *store.Tx, b store.BulkAction, sims []simwarden.SIMID) ([]store.BulkResult, error) {
	assets := make([]store.Asset, len(sims))
	for i, id := range sims {
		assets[i].SIMID = id
	}
	if err := tx.LockAssets(ctx, assets); err != nil { // rows before facts: the order of all who lock both
		return nil, err
	}
	overtaken, err := tx.ActedSince(ctx, sims, b.CreatedAt)
	if err != nil {
		return nil, err
	}
	results := make([]store.BulkResult, 0, len(sims))
	items := make([]Item, 0, len(sims))
	ours := make([]simwarden.SIMID, 0, len(sims))
	for _, id := range sims {
		if slices.Contains(overtaken, id) {
			results = append(results, store.BulkResult{SIMID: id, Outcome: store.BulkOvertaken, Because: "a person has suspended or resumed it since"})
			continue
		}
		ours = append(ours, id)
		items = append(items, Item{SIMID: id, Scene: simwarden.SceneManual, Cause: store.Cause{Kind: store.CauseBulk, ID: b.ID}, AskedBy: b.Actor, Manual: b.Direction})
	}
	kind, hold := store.EventHoldLifted, b.Direction == simwarden.DirectionSuspend
	if hold {
		kind = store.EventHold
	}
	if err := tx.HoldAll(ctx, ours, hold, b.Actor, b.Reason); err != nil {
		return nil, err
	}
	outcomes, err := SIMs(ctx, tx, items)
	if err != nil {
		return nil, err
	}
	events := make([]store.NewEvent, len(outcomes))
	audits := make([]store.AuditEntry, len(outcomes))
	for i, o := range outcomes {
		r := bulkResult(o)
		results = append(results, r)
		events[i] = store.NewEvent{Kind: kind, SIMID: o.SIMID, AccountID: o.AccountID, Actor: b.Actor, Data: map[string]any{"reason": b.Reason, "bulk_id": b.ID}}
		audits[i] = store.AuditEntry{SIMID: o.SIMID, AccountID: o.AccountID, Data: map[string]any{"reason": b.Reason, "bulk_id": b.ID,
			"command_id": r.CommandID, "ordered": o.Ordered.Action, "warnings": o.Decision.Warnings}}
	}
	if err := tx.AddEvents(ctx, events); err != nil {
		return nil, err
	}
	return results, tx.AuditAll(ctx, b.Actor, "sim_"+string(b.Direction), audits)
}

// bulkResult says what came of one SIM.
func bulkResult(o Outcome) store.BulkResult {
	r := store.BulkResult{SIMID: o.SIMID, Outcome: store.BulkNone, Because: o.Ordered.Because, CommandID: o.CommandID}
	if r.Because == "" {
		r.Because = o.Decision.Because
	}
	switch o.Ordered.Action {
	case rules.OrderOpen, rules.OrderReplace:
		r.Outcome = store.BulkOrdered
	case rules.OrderWait:
		r.Outcome = store.BulkWaits
	case rules.OrderObserve:
		r.Outcome = store.BulkObserved
	case rules.OrderNone, rules.OrderWithdraw, rules.OrderHold:
	}
	return r
}

// priorityOf is the place of the command that an item leads to.
func priorityOf(d simwarden.Direction, item Item) int {
	if item.Cause.Kind == store.CauseBulk {
		return bulkPriority
	}
	return Priority(d, item.Scene)
}
