package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/simwarden/simwarden"
)

// Bulk gives one bulk action.
func (s *Store) Bulk(ctx context.Context, id int64) (BulkAction, error) {
	b, err := scanBulk(s.pool.QueryRow(ctx, `SELECT `+bulkColumns+` FROM bulk_action WHERE id = $1`, id))
	if err != nil {
		return b, fmt.Errorf("bulk action %d: %w", id, err)
	}
	return b, nil
}

// Bulks lists bulk actions, the newest first; before is the id of the last one of the page before, 0
// for the first page.
func (s *Store) Bulks(ctx context.Context, before int64, limit int) ([]BulkAction, error) {
	return scanAll("list bulk actions", scanBulk)(s.pool.Query(ctx,
		`SELECT `+bulkColumns+` FROM bulk_action WHERE $1::bigint = 0 OR id < $1 ORDER BY id DESC LIMIT $2`, before, limit))
}

// BulkItems lists the SIMs of a bulk action by id, those with an outcome alone where one is given.
func (s *Store) BulkItems(ctx context.Context, id int64, outcome BulkOutcome, after simwarden.SIMID, limit int) ([]BulkItem, error) {
	return scanAll(fmt.Sprintf("items of bulk action %d", id), scanBulkItem)(s.pool.Query(ctx, `
		SELECT i.sim_id, s.iccid, a.name, i.outcome, i.because, coalesce(c.id, i.command_id, 0), coalesce(c.state, ''), coalesce(c.end_because, ''), i.done_at
		FROM bulk_item i JOIN sim s ON s.id = i.sim_id JOIN account a ON a.id = s.account_id
		LEFT JOIN LATERAL (SELECT id, state, end_because FROM command c
			WHERE c.sim_id = i.sim_id AND (c.id = i.command_id OR c.cause_kind = '`+CauseBulk+`' AND c.cause_id = i.bulk_id)
			ORDER BY c.id DESC LIMIT 1) c ON i.done_at IS NOT NULL
		WHERE i.bulk_id = $1 AND i.sim_id > $2 AND ($3 = '' OR i.outcome = $3) ORDER BY i.sim_id LIMIT $4`, id, after, string(outcome), limit))
}

func scanBulkItem(row pgx.Row) (BulkItem, error) {
	var i BulkItem
	var done *time.Time
	err := one(row, &i.SIMID, &i.ICCID, &i.Account, &i.Outcome, &i.Because, &i.CommandID, &i.CommandState, &i.EndBecause, &done)
	i.DoneAt = timeOf(done)
	return i, err
}

// BulkCount is how many SIMs of a bulk action came out in one way.
type BulkCount struct {
	Outcome BulkOutcome `json:"outcome,omitempty"` // empty: not acted on yet
	SIMs    int         `json:"sims"`
}

// BulkCounts counts the outcomes of a bulk action.
func (s *Store) BulkCounts(ctx context.Context, id int64) ([]BulkCount, error) {
	return scanAll(fmt.Sprintf("count items of bulk action %d", id), func(row pgx.Row) (c BulkCount, err error) {
		err = row.Scan(&c.Outcome, &c.SIMs)
		return c, err
	})(s.pool.Query(ctx, `SELECT outcome, count(*) FROM bulk_item WHERE bulk_id = $1 GROUP BY outcome ORDER BY outcome`, id))
}

// SIMIDs gives the ids of up to f.Limit SIMs that the filter lets through, by id.
func (s *Store) SIMIDs(ctx context.Context, f SIMFilter) ([]simwarden.SIMID, error) {
	return scanAll("find sims", scanID[simwarden.SIMID])(s.pool.Query(ctx, `SELECT s.id`+simTables+simWhere, f.args()...))
}

// formsAtATime bounds one statement of FindICCIDs.
const formsAtATime = 20_000

// FindICCIDs finds SIMs by their numbers, given with or without check digit (I6). A number that fits
// no card has no entry, one that fits several has several.
func (s *Store) FindICCIDs(ctx context.Context, iccids []simwarden.ICCID) (map[simwarden.ICCID][]simwarden.SIMID, error) {
	out := make(map[simwarden.ICCID][]simwarden.SIMID, len(iccids))
	exact := make(map[simwarden.ICCID]bool, len(iccids))
	var forms []string
	var of []simwarden.ICCID
	flush := func(isExact bool) error {
		if len(forms) == 0 {
			return nil
		}
		rows, err := s.pool.Query(ctx, `SELECT v.n, s.id FROM unnest($1::text[]) WITH ORDINALITY AS v (iccid, n) JOIN sim s ON s.iccid = v.iccid`, forms)
		if err != nil {
			return fmt.Errorf("find %d ICCIDs: %w", len(iccids), err)
		}
		var n int
		var id simwarden.SIMID
		_, err = pgx.ForEachRow(rows, []any{&n, &id}, func() error {
			out[of[n-1]], exact[of[n-1]] = append(out[of[n-1]], id), isExact
			return nil
		})
		forms, of = forms[:0], of[:0]
		if err != nil {
			return fmt.Errorf("find %d ICCIDs: %w", len(iccids), err)
		}
		return nil
	}
	add := func(form string, iccid simwarden.ICCID, isExact bool) error {
		forms, of = append(forms, form), append(of, iccid)
		if len(forms) < formsAtATime {
			return nil
		}
		return flush(isExact)
	}
	iccids = slices.Clone(iccids)
	slices.SortFunc(iccids, func(a, b simwarden.ICCID) int { return strings.Compare(a.String(), b.String()) })
	iccids = slices.Compact(iccids) // one that is named twice is one SIM
	for _, iccid := range iccids {
		if err := add(iccid.String(), iccid, true); err != nil {
			return nil, err
		}
	}
	if err := flush(true); err != nil {
		return nil, err
	}
	for _, iccid := range iccids {
		if exact[iccid] {
			continue
		}
		for _, other := range iccid.Alternates() {
			if err := add(other.String(), iccid, false); err != nil {
				return nil, err
			}
		}
	}
	return out, flush(false)
}

// BulkGroup counts SIMs of one account that are alike for a bulk action.
type BulkGroup struct {
	AccountID simwarden.AccountID
	State     simwarden.State
	SIMs      int
	Held      int // a person holds them
	Open      int // a command of theirs is open
	// Reasons counts those for which a reason holds that is no person's hold.
	Reasons int
}

// BulkGroups counts SIMs by account and state.
func (s *Store) BulkGroups(ctx context.Context, sims []simwarden.SIMID) ([]BulkGroup, error) {
	return scanAll(fmt.Sprintf("count %d sims", len(sims)), func(row pgx.Row) (g BulkGroup, err error) {
		err = row.Scan(&g.AccountID, &g.State, &g.SIMs, &g.Held, &g.Open, &g.Reasons)
		return g, err
	})(s.pool.Query(ctx, `
		SELECT s.account_id, p.state, count(*), count(s.hold_at), count(c.id),
			count(*) FILTER (WHERE jsonb_path_exists(p.reasons, '$[*] ? (@.reason != "`+string(simwarden.ReasonManualHold)+`")'))
		FROM unnest($1::bigint[]) AS v (id) JOIN sim s ON s.id = v.id JOIN poll_state p ON p.sim_id = s.id
		LEFT JOIN command c ON c.sim_id = s.id AND c.state IN ('queued', 'sending', 'verifying', 'confirming')
		GROUP BY s.account_id, p.state ORDER BY s.account_id, p.state`, sims))
}
