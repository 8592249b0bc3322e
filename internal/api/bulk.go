package api

import (
	"context"
	"strings"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
)

// BulkTarget says which SIMs a bulk action is about: a list of numbers as people write them (I6), or
// a filter, of which Cursor and Limit are not looked at.
type BulkTarget struct {
	ICCIDs []string
	Filter SIMQuery
}

// BulkOrder is a bulk action to be begun.
type BulkOrder struct {
	Direction simwarden.Direction
	Reason    string
	Target    BulkTarget
	// AtMost refuses the action where it would be about more SIMs, such as the preview said; 0: store.MaxBulk.
	AtMost int
	// SkipBad leaves numbers out that name no SIM; without it one such refuses the action.
	SkipBad bool
}

// maxBadShown bounds the bad numbers of a preview that are told one by one.
const maxBadShown = 100

// BadICCID is a number of the list that names no SIM, or several.
type BadICCID struct {
	Row   int    `json:"row"` // the first is 1
	Text  string `json:"text"`
	Error string `json:"error"`
}

// found are the SIMs of a target, each once.
type found struct {
	sims  []simwarden.SIMID
	twice int
	bad   []BadICCID // the first maxBadShown
	bads  int
}

// find finds the SIMs of a target.
func (s *Service) findBulk(ctx context.Context, t BulkTarget) (found, error) {
	t.Filter.Cursor, t.Filter.Limit = "", 0
	var f found
	var err error
	switch filtered := t.Filter != (SIMQuery{}); {
	case filtered && len(t.ICCIDs) > 0:
		return f, badInput("give a list of ICCIDs or a filter, not both")
	case filtered:
		f.sims, err = s.filtered(ctx, t.Filter)
	case len(t.ICCIDs) == 0:
		return f, badInput("which SIMs? Give a list of ICCIDs or a filter; for all SIMs of an account give the account")
	case len(t.ICCIDs) > store.MaxBulk:
		return f, badInput("%d ICCIDs: give at most %d at a time", len(t.ICCIDs), store.MaxBulk)
	default:
		f, err = s.listed(ctx, t.ICCIDs)
	}
	if err == nil && len(f.sims) > store.MaxBulk {
		err = badInput("this is about more than %d SIMs; narrow the filter, for example to one account", store.MaxBulk)
	}
	return f, err
}

func (s *Service) filtered(ctx context.Context, q SIMQuery) ([]simwarden.SIMID, error) {
	account, err := s.accountID(ctx, q.Account)
	if err != nil {
		return nil, err
	}
	if err := q.check(); err != nil {
		return nil, err
	}
	f := q.filter(account)
	f.Limit = store.MaxBulk + 1
	return s.Store.SIMIDs(ctx, f)
}

func (s *Service) listed(ctx context.Context, texts []string) (found, error) {
	var f found
	bad := func(row int, text, why string) {
		if f.bads++; len(f.bad) < maxBadShown {
			f.bad = append(f.bad, BadICCID{Row: row + 1, Text: clip(text, 64), Error: why})
		}
	}
	parsed := make([]simwarden.ICCID, 0, len(texts))
	rows := make([]int, 0, len(texts))
	for i, text := range texts {
		iccid, err := simwarden.ParseICCID(text)
		if err != nil {
			bad(i, text, err.Error())
			continue
		}
		parsed, rows = append(parsed, iccid), append(rows, i)
	}
	ids, err := s.Store.FindICCIDs(ctx, parsed)
	if err != nil {
		return f, err
	}
	seen := make(map[simwarden.SIMID]bool, len(parsed))
	for i, iccid := range parsed {
		switch of := ids[iccid]; {
		case len(of) == 0:
			bad(rows[i], texts[rows[i]], "no SIM has this ICCID")
		case len(of) > 1:
			bad(rows[i], texts[rows[i]], store.ErrAmbiguousICCID.Error())
		case seen[of[0]]:
			f.twice++
		default:
			seen[of[0]] = true
			f.sims = append(f.sims, of[0])
		}
	}
	return f, nil
}

// StartBulk begins a bulk action (F53): running nodes work it off in the background, within the
// limits of the carriers (G2). It gives the action as it begins.
func (s *Service) StartBulk(ctx context.Context, o BulkOrder, actor string) (store.BulkAction, error) {
	var b store.BulkAction
	if !isOneOf(o.Direction, directions) {
		return b, notOneOf("direction", o.Direction, directions)
	}
	if strings.TrimSpace(o.Reason) == "" {
		return b, badInput("give a reason: it is kept with each SIM")
	}
	if err := checkReason(o.Reason); err != nil {
		return b, err
	}
	f, err := s.findBulk(ctx, o.Target)
	if err != nil {
		return b, err
	}
	switch {
	case f.bads > 0 && !o.SkipBad:
		return b, badInput("%d of the ICCIDs name no SIM, the first in row %d (%s): %s; correct them, or leave them out with skip_bad",
			f.bads, f.bad[0].Row, f.bad[0].Text, f.bad[0].Error)
	case len(f.sims) == 0:
		return b, badInput("no SIM fits this: nothing was begun; look at what the preview counts")
	case o.AtMost > 0 && len(f.sims) > o.AtMost:
		return b, badInput("this is about %d SIMs now, and at most %d were wanted; look at the preview again", len(f.sims), o.AtMost)
	}
	err = s.Store.InTx(ctx, func(tx *store.Tx) error {
		if b, err = tx.AddBulk(ctx, store.BulkAction{Direction: o.Direction, Reason: o.Reason, Actor: actor}, f.sims); err != nil {
			return err
		}
		return tx.Audit(ctx, actor, "bulk_"+string(o.Direction), 0, 0, map[string]any{"bulk_id": b.ID, "sims": b.Total, "skipped": f.bads, "reason": o.Reason,
			"filter": o.Target.Filter.told()})
	})
	return b, err
}

// told is a filter as the audit log keeps it.
func (q SIMQuery) told() map[string]any {
	out := map[string]any{}
	for name, v := range map[string]string{"account": q.Account, "state": string(q.State), "desired": string(q.Desired), "reason": string(q.Reason),
		"extended_state": string(q.Extended), "search": q.Search} {
		if v != "" {
			out[name] = v
		}
	}
	for name, v := range map[string]bool{"drifting": q.Drifting, "paused": q.Paused, "closed": q.Closed} {
		if v {
			out[name] = v
		}
	}
	return out
}

// BulkStatus is a bulk action with what came of its SIMs so far, counted.
type BulkStatus struct {
	store.BulkAction
	Outcomes []store.BulkCount `json:"outcomes"`
}

// Bulk tells how far a bulk action is.
func (s *Service) Bulk(ctx context.Context, id int64) (BulkStatus, error) {
	b, err := s.Store.Bulk(ctx, id)
	if err != nil {
		return BulkStatus{}, err
	}
	counts, err := s.Store.BulkCounts(ctx, id)
	return BulkStatus{b, counts}, err
}

// Bulks lists bulk actions, the newest first.
func (s *Service) Bulks(ctx context.Context, cursor string, limit int) (Page[store.BulkAction], error) {
	limit, err := pageLimit(limit)
	if err != nil {
		return Page[store.BulkAction]{}, err
	}
	before, err := cursorID("bulk", cursor)
	if err != nil {
		return Page[store.BulkAction]{}, err
	}
	rows, err := s.Store.Bulks(ctx, before, limit+1)
	if err != nil {
		return Page[store.BulkAction]{}, err
	}
	return pageOf(rows, limit, "bulk", func(b store.BulkAction) int64 { return b.ID }), nil
}

// BulkItems lists what came of each SIM of a bulk action; outcome narrows it where it is given.
func (s *Service) BulkItems(ctx context.Context, id int64, outcome store.BulkOutcome, cursor string, limit int) (Page[store.BulkItem], error) {
	var none Page[store.BulkItem]
	limit, err := pageLimit(limit)
	if err != nil {
		return none, err
	}
	after, err := cursorID("bulk_item", cursor)
	if err != nil {
		return none, err
	}
	if outcome != "" && !isOneOf(outcome, store.BulkOutcomes()) {
		return none, notOneOf("outcome", outcome, store.BulkOutcomes())
	}
	if _, err := s.Store.Bulk(ctx, id); err != nil {
		return none, err
	}
	rows, err := s.Store.BulkItems(ctx, id, outcome, simwarden.SIMID(after), limit+1)
	if err != nil {
		return none, err
	}
	return pageOf(rows, limit, "bulk_item", func(i store.BulkItem) int64 { return int64(i.SIMID) }), nil
}

// CancelBulk ends a bulk action: what was ordered stays, the rest is left. changed is false where it
// had ended.
func (s *Service) CancelBulk(ctx context.Context, id int64, actor string) (b BulkStatus, changed bool, err error) {
	err = s.Store.InTx(ctx, func(tx *store.Tx) error {
		if changed, err = tx.CancelBulk(ctx, id, actor); err != nil || !changed {
			return err
		}
		return tx.Audit(ctx, actor, "bulk_cancel", 0, 0, map[string]any{"bulk_id": id})
	})
	if err != nil {
		return b, false, err
	}
	b, err = s.Bulk(ctx, id)
	return b, changed, err
}

// bulkTime is a length of time in whole seconds, rounded up.
func bulkTime(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
