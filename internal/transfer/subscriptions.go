package transfer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/calendar"
	"github.com/simwarden/simwarden/internal/plans"
	"github.com/simwarden/simwarden/internal/store"
)

// maxRef bounds a purchase's reference, in characters.
const maxRef = 128

// earliestStart is before any plan that can still be running.
var earliestStart = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// Subscriptions buys the plans of a CSV file. It has the columns iccid and plan (a code), and may
// have start (RFC 3339, or a date, which begins at its first instant in the plan's zone), used (whole
// bytes) and ref. A row that was imported before, by its ref or else by its SIM, plan and start, is
// counted and not bought again. All rows are bought in one transaction or none.
//
// The errors are those of SIMs, but for the account.
func (im Importer) Subscriptions(ctx context.Context, src io.ReadSeeker, o Options) (Report, error) {
	list, err := im.Store.Plans(ctx)
	if err != nil {
		return Report{}, err
	}
	byCode := make(map[string]simwarden.Plan, len(list))
	for _, p := range list {
		byCode[p.Code] = p
	}
	return im.file(ctx, src, KindSubscriptions, o, func(_ context.Context, r *run) (loader, error) {
		return &subscriptionLoader{run: r, by: im.By, confirm: o.ConfirmEnds, plans: byCode, seen: map[[16]byte]uint32{}}, nil
	})
}

// subscriptionRow is a purchase as its row has it, and then as the database knows it.
type subscriptionRow struct {
	rec   record
	iccid simwarden.ICCID
	raw   string
	plan  simwarden.Plan
	start time.Time // zero where the row says none
	used  int64
	ref   string // as given, "" where the row says none

	sim       store.SIMAsset
	importRef string
}

type subscriptionLoader struct {
	*run
	by string
	// confirm has the ends of the file's subscriptions confirmed; confirmed are those of the rows at work.
	confirm   bool
	confirmed []simwarden.SubscriptionID

	plans map[string]simwarden.Plan
	seen  map[[16]byte]uint32 // purchases of this file, hashed, to their rows
	rows  []subscriptionRow
	ended int // bought though over already
}

func (l *subscriptionLoader) pending() int { return len(l.rows) }

func (l *subscriptionLoader) add(rec record) {
	row, problems := l.parse(rec)
	if len(problems) > 0 {
		l.bad(rec, problems...)
		return
	}
	l.rows = append(l.rows, row)
}

// parse reads a row's cells.
func (l *subscriptionLoader) parse(rec record) (row subscriptionRow, problems []RowError) {
	wrongText := func(column, value, problem string) {
		problems = append(problems, RowError{Column: column, Value: value, Problem: problem})
	}
	row.rec, row.raw = rec, l.head.cell(rec, columnICCID)
	var err error
	if row.iccid, err = simwarden.ParseICCID(row.raw); err != nil {
		problems = append(problems, wrong(columnICCID, row.raw, err))
	}
	code := l.head.cell(rec, columnPlan)
	plan, known := l.plans[code]
	row.plan = plan
	switch {
	case code == "":
		wrongText(columnPlan, "", "no plan is given")
	case !known:
		wrongText(columnPlan, code, "there is no plan with this code; see simwarden plan list, or add it first")
	}
	if text := l.head.cell(rec, columnStart); text != "" && known {
		var problem string
		if row.start, problem = startOf(text, plan.Zone, l.tx.At); problem != "" {
			wrongText(columnStart, text, problem)
		}
	}
	if text := l.head.cell(rec, columnUsed); text != "" {
		if row.used, err = strconv.ParseInt(text, 10, 64); err != nil || row.used < 0 {
			wrongText(columnUsed, text, "used is a whole number of bytes, without unit or separators, 0 or more")
		}
	}
	row.ref = l.head.cell(rec, columnRef)
	if problem := textProblem(row.ref, maxRef); problem != "" {
		wrongText(columnRef, row.ref, problem)
	}
	return row, problems
}

// startOf reads a start: an instant, or a date's first instant in the zone. problem is "" where it
// is one of the past or present.
func startOf(text, zoneName string, now time.Time) (start time.Time, problem string) {
	zone, err := calendar.LoadZone(zoneName)
	if err != nil {
		return start, "the plan's " + err.Error()
	}
	if start, err = time.Parse(time.RFC3339, text); err != nil {
		noon, err := time.ParseInLocation("2006-01-02 15", text+" 12", zone)
		if err != nil {
			return start, "a start is written 2026-05-31 (in the plan's zone) or 2026-05-31T08:00:00+08:00"
		}
		start = calendar.StartOfDay(noon, zone)
		if noon.Format(time.DateOnly) != text {
			return start, "this day does not exist in the zone " + zoneName
		}
	}
	// To the microsecond, as it is kept.
	start = start.UTC().Truncate(time.Microsecond)
	switch {
	case start.After(now):
		return start, "it lies in the future; leave it empty, and the plan begins now or behind the current one"
	case start.Before(earliestStart):
		return start, "it lies before the year 2000; correct it"
	}
	return start, ""
}

func (l *subscriptionLoader) flush(ctx context.Context, last bool) error {
	if err := l.buyAll(ctx); err != nil || !last {
		return err
	}
	l.warnEnded()
	return l.warnMassEnds(ctx)
}

func (l *subscriptionLoader) buyAll(ctx context.Context) error {
	rows := l.rows
	l.rows = l.rows[:0]
	rows, err := l.findSIMs(ctx, rows)
	if err != nil || len(rows) == 0 {
		return err
	}
	refs, assets := make([]string, len(rows)), make([]store.Asset, len(rows))
	for i := range rows {
		rows[i].importRef = rows[i].reference()
		refs[i], assets[i] = rows[i].importRef, rows[i].sim.Asset
	}
	before, err := l.tx.ImportedSubscriptions(ctx, refs)
	if err != nil {
		return err
	}
	if err := l.tx.LockAssets(ctx, assets); err != nil {
		return err
	}
	live, err := l.tx.LiveByAsset(ctx, assets)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if err := l.buy(ctx, row, before, live); err != nil {
			return err
		}
	}
	if !l.confirm {
		return nil
	}
	defer func() { l.confirmed = l.confirmed[:0] }()
	return l.tx.ConfirmEnds(ctx, l.confirmed)
}

// findSIMs resolves the rows' numbers and makes row errors of those that name no SIM, or several.
func (l *subscriptionLoader) findSIMs(ctx context.Context, rows []subscriptionRow) ([]subscriptionRow, error) {
	var forms []string
	for _, row := range rows {
		forms = appendForms(forms, row.iccid)
	}
	known, err := l.tx.KnownICCIDs(ctx, forms)
	if err != nil {
		return nil, err
	}
	var ids []simwarden.SIMID
	for _, id := range known {
		ids = append(ids, id)
	}
	assets, err := l.tx.AssetsOfSIMs(ctx, ids)
	if err != nil {
		return nil, err
	}
	kept := rows[:0]
	for _, row := range rows {
		id, problem := findOne(known, row.iccid)
		if problem != "" {
			l.bad(row.rec, RowError{Column: columnICCID, Value: row.raw, Problem: problem})
			continue
		}
		row.sim = assets[id]
		kept = append(kept, row)
	}
	return kept, nil
}

// findOne finds a card under its number as given, else under the one other form that is known.
func findOne(known map[string]simwarden.SIMID, iccid simwarden.ICCID) (id simwarden.SIMID, problem string) {
	if id, found := known[iccid.String()]; found {
		return id, ""
	}
	n := 0
	for _, other := range iccid.Alternates() {
		if found, ok := known[other.String()]; ok {
			id, n = found, n+1
		}
	}
	switch n {
	case 0:
		return 0, "there is no SIM with this ICCID; import the SIMs first"
	case 1:
		return id, ""
	}
	return 0, store.ErrAmbiguousICCID.Error()
}

// reference is the row's ref, or one that the same SIM, plan and start always have, in whatever form
// the row writes them.
func (row subscriptionRow) reference() string {
	if row.ref != "" {
		return row.ref
	}
	start := ""
	if !row.start.IsZero() {
		start = row.start.Format(time.RFC3339Nano)
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{row.sim.ICCID, row.plan.Code, start}, "\x00")))
	return "csv:" + hex.EncodeToString(sum[:16])
}

// purchase is what makes two rows of one file the same: their ref, or else what they buy.
func (row subscriptionRow) purchase() [16]byte {
	text := "ref\x00" + row.ref
	if row.ref == "" {
		text = fmt.Sprintf("asset\x00%d\x00%d\x00%d\x00%s", row.sim.Asset.SIMID, row.sim.Asset.DeviceID, row.plan.ID, row.start.Format(time.RFC3339Nano))
	}
	sum := sha256.Sum256([]byte(text))
	return [16]byte(sum[:16])
}

// buy buys one row's plan, or says why not.
func (l *subscriptionLoader) buy(ctx context.Context, row subscriptionRow, before map[string]simwarden.Subscription, live map[store.Asset][]simwarden.Subscription) error {
	bad := func(column, value, problem string) error {
		l.bad(row.rec, RowError{Column: column, Value: value, Problem: problem})
		return nil
	}
	asset := row.sim.Asset
	key := row.purchase()
	if first, twice := l.seen[key]; twice {
		what := "the same SIM, plan and start are"
		switch {
		case row.ref != "":
			what = "the same ref is"
		case asset.DeviceID != 0:
			what = "the same plan and start for this SIM's device are"
		}
		return bad("", "", fmt.Sprintf("%s in row %d; take one out, or give each its own ref where both are meant", what, first))
	}
	l.seen[key] = uint32(row.rec.row)
	if old, found := before[row.importRef]; found {
		other := old.PlanID != row.plan.ID || old.SIMID != 0 && asset.SIMID != 0 && old.SIMID != asset.SIMID ||
			old.DeviceID != 0 && asset.DeviceID != 0 && old.DeviceID != asset.DeviceID
		if other {
			return bad(columnRef, row.ref, fmt.Sprintf("another purchase, of plan %s, has this ref; give this one its own", old.PlanCode))
		}
		l.rep.AlreadyThere++
		l.confirmed = append(l.confirmed, old.ID)
		return nil
	}
	if row.plan.Kind == simwarden.PlanMain && (!row.start.IsZero() || row.used > 0) {
		for _, b := range live[asset] {
			if b.Kind == simwarden.PlanMain && (b.State == simwarden.SubscriptionQueued || b.InForce(l.tx.At)) {
				return bad(columnStart, l.head.cell(row.rec, columnStart), fmt.Sprintf(
					"the main plan %s is %s already, so this one can only be queued behind it; leave start and used empty for that", b.PlanCode, b.State))
			}
		}
	}
	b, err := plans.Subscribe(ctx, l.tx, plans.Order{Asset: asset, Plan: row.plan, By: l.by,
		StartAt: row.start, UsedBytes: row.used, ImportRef: row.importRef})
	switch {
	case errors.Is(err, plans.ErrPlanInvalid): // found before anything was written
		return bad(columnPlan, row.plan.Code, err.Error())
	case err != nil:
		return fmt.Errorf("row %d: %w", row.rec.row, err)
	}
	live[asset] = append(live[asset], b)
	l.confirmed = append(l.confirmed, b.ID)
	l.rep.Good++
	if !b.EndAt.IsZero() && !b.EndAt.After(l.tx.At) {
		l.ended++
	}
	return nil
}

// warnEnded says how many of the plans bought are over already: their SIMs lapse at once.
func (l *subscriptionLoader) warnEnded() {
	if l.ended > 0 {
		l.rep.Warnings = append(l.rep.Warnings, fmt.Sprintf("%d of these subscriptions have ended already; they lapse at once, and their SIMs are judged without them", l.ended))
	}
}

// warnMassEnds says where so many of the plans bought end at once that a guard will hold them (C10).
func (l *subscriptionLoader) warnMassEnds(ctx context.Context) error {
	list, err := plans.MassEnds(ctx, l.tx)
	if err != nil {
		return err
	}
	for _, m := range list {
		l.rep.Warnings = append(l.rep.Warnings, fmt.Sprintf(
			"%d SIMs of account %s lose their plan at %s by this file, at once and soon, more than the %d that its safety brake allows: a guard will hold these ends until a person "+
				"releases it; look at the column start, and where the ends are right, import with --confirm-ends, also a second time",
			m.SIMs, m.Account, m.EndAt.UTC().Format(time.RFC3339), m.Limit))
	}
	return nil
}
