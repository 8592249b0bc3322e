package transfer

import (
	"bufio"
	"context"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
)

// The kinds of file that are only written.
const (
	KindDevices   Kind = "devices"
	KindRecords   Kind = "records"
	KindUsageDays Kind = "usage_days"
)

// Exports lists the kinds that can be exported.
func Exports() []Kind {
	return []Kind{KindSIMs, KindDevices, KindSubscriptions, KindRecords, KindUsageDays}
}

// ExportFilter narrows an export; zero fields do not. Of what has a time only that from FromAt to
// before UntilAt is exported, UTC: records by their end, used days by the day.
type ExportFilter struct {
	Account simwarden.AccountID // devices have none
	SIM     simwarden.SIMID     // records and used days
	State   simwarden.State     // SIMs
	Ended   bool                // subscriptions that have ended as well
	FromAt  time.Time
	UntilAt time.Time
}

// exportPage is how many rows are read at a time, each page for itself: no export holds a snapshot
// that keeps the database from cleaning up behind it.
const exportPage = 1000

// Exporter writes CSV files that Importer and spreadsheets read (I4).
type Exporter struct{ Store *store.Store }

// page is some rows of a file; next continues after them, false at the end.
type page struct {
	rows [][]string
	more bool
}

// Write writes all rows of a kind: UTF-8 with a mark, every cell below the header quoted
// and safe to be opened in a spreadsheet (F45). It gives how many. Nothing is written before the first rows are there, so that an
// error of the query is told and no empty file. What changes meanwhile may be in it as it was or as
// it is; nothing is in it twice.
func (x Exporter) Write(ctx context.Context, w io.Writer, kind Kind, f ExportFilter) (rows int, err error) {
	columns, next := x.begin(kind, f)
	if next == nil {
		return 0, fileError("there is no export of %q", clip(string(kind)))
	}
	out := bufio.NewWriterSize(w, 64<<10)
	for first := true; ; first = false {
		p, err := next(ctx)
		if err != nil {
			return rows, err
		}
		if first {
			// Unquoted: behind the mark a quote would be none to strict readers. Flush tells errors.
			_, _ = out.WriteString("\ufeff" + strings.Join(columns, ",") + "\r\n")
		}
		for _, cells := range p.rows {
			if err := writeRecord(out, cells); err != nil {
				return rows, err
			}
			rows++
		}
		if !p.more {
			return rows, out.Flush()
		}
	}
}

// begin gives an export's columns, those that an import reads first, and what reads its pages.
func (x Exporter) begin(kind Kind, f ExportFilter) (columns []string, next func(context.Context) (page, error)) {
	switch kind {
	case KindSIMs:
		return simExportColumns, x.sims(f)
	case KindDevices:
		return deviceExportColumns, x.devices()
	case KindSubscriptions:
		return subscriptionExportColumns, x.subscriptions(f)
	case KindRecords:
		return recordExportColumns, x.records(f)
	case KindUsageDays:
		return usageExportColumns, x.usageDays(f)
	}
	return nil, nil
}

var simExportColumns = []string{columnICCID, columnMSISDN, columnIMSI, columnLabel, columnIMEI, "account", "state", "pending", "extended_state", "raw_state",
	"state_read_at", "desired", "reason", "because", "polling", "held_by", "drifting_at", "realname", "lifetime_bytes", "created_at"}

func (x Exporter) sims(f ExportFilter) func(context.Context) (page, error) {
	filter := store.SIMFilter{AccountID: f.Account, State: f.State, Limit: exportPage}
	return func(ctx context.Context) (page, error) {
		list, err := x.Store.SIMs(ctx, filter)
		if err != nil {
			return page{}, err
		}
		var devices []simwarden.DeviceID
		for _, s := range list {
			filter.After = s.ID
			if s.DeviceID != 0 {
				devices = append(devices, s.DeviceID)
			}
		}
		imeis, err := x.Store.IMEIs(ctx, devices)
		if err != nil {
			return page{}, err
		}
		return pageOf(list, func(s store.SIM) []string {
			return []string{s.ICCID.String(), s.MSISDN, s.IMSI, s.Label, imeis[s.DeviceID], s.AccountName, string(s.State), yes(s.Pending), string(s.Extended), s.RawState,
				instant(s.StateReadAt), string(s.Desired), string(s.Reason), s.Because, pollingOf(s), s.HoldBy, instant(s.DriftingAt), string(s.RealName),
				number(s.LifetimeBytes), instant(s.CreatedAt)}
		}), nil
	}
}

// pollingOf says in one word what stops the polling of a SIM.
func pollingOf(s store.SIM) string {
	switch {
	case !s.ClosedAt.IsZero():
		return "closed"
	case !s.PausedAt.IsZero():
		return "paused"
	case !s.DevicePausedAt.IsZero():
		return "device_paused"
	}
	return "on"
}

var deviceExportColumns = []string{columnIMEI, columnName, "sims", "polling", "paused_by", "paused_reason", "created_at"}

func (x Exporter) devices() func(context.Context) (page, error) {
	filter := store.DeviceFilter{Limit: exportPage}
	return func(ctx context.Context) (page, error) {
		list, err := x.Store.Devices(ctx, filter)
		return pageOf(list, func(d store.Device) []string {
			filter.After = d.ID
			polling := "on"
			if !d.PausedAt.IsZero() {
				polling = "paused"
			}
			return []string{d.IMEI, d.Name, strconv.Itoa(d.SIMs), polling, d.PausedBy, d.PausedReason, instant(d.CreatedAt)}
		}), err
	}
}

var subscriptionExportColumns = []string{columnICCID, columnPlan, columnStart, columnUsed, columnRef, columnIMEI, "account", "kind", "state", "end", "allowance_bytes",
	"next_reset_at", "renew", "bought_at", "bought_by", "id"}

func (x Exporter) subscriptions(f ExportFilter) func(context.Context) (page, error) {
	filter := store.SubscriptionFilter{AccountID: f.Account, LiveOnly: !f.Ended, Limit: exportPage}
	return func(ctx context.Context) (page, error) {
		list, err := x.Store.SoldSubscriptions(ctx, filter)
		return pageOf(list, func(b store.SoldSubscription) []string {
			filter.After = b.ID
			ref := b.ImportRef
			if ref == "" {
				ref = store.ExportRef + number(int64(b.ID))
			}
			start, used := b.StartAt, number(b.UsedBytes)
			if b.State == simwarden.SubscriptionQueued {
				start, used = time.Time{}, ""
			}
			return []string{b.ICCID, b.PlanCode, instant(start), used, ref, b.IMEI, b.Account, string(b.Kind), string(b.State), instant(b.EndAt), number(b.AllowanceBytes),
				instant(b.NextResetAt), yes(b.Renew), instant(b.BoughtAt), b.BoughtBy, number(int64(b.ID))}
		}), err
	}
}

var recordExportColumns = []string{"command_id", "ended_at", "created_at", columnICCID, "account_id", "direction", "scene", "reason", "status", "because", "asked_by",
	"attempts", "class", "code", "message", "rule", "subscription_id"}

func (x Exporter) records(f ExportFilter) func(context.Context) (page, error) {
	filter := store.RecordFilter{AccountID: f.Account, SIMID: f.SIM, FromAt: f.FromAt, UntilAt: f.UntilAt, Limit: exportPage}
	return func(ctx context.Context) (page, error) {
		list, err := x.Store.Records(ctx, filter)
		return pageOf(list, func(r store.Record) []string {
			filter.Before = r.CommandID
			subscription := ""
			if r.SubscriptionID != 0 {
				subscription = number(int64(r.SubscriptionID))
			}
			return []string{number(int64(r.CommandID)), instant(r.EndedAt), instant(r.CreatedAt), r.ICCID, number(int64(r.AccountID)), string(r.Direction), string(r.Scene),
				string(r.Reason), string(r.Status), r.EndBecause, r.AskedBy, strconv.Itoa(len(r.Attempts)), r.Class, r.Code, r.Message, r.Rule, subscription}
		}), err
	}
}

var usageExportColumns = []string{columnICCID, "account", "day", "bytes"}

func (x Exporter) usageDays(f ExportFilter) func(context.Context) (page, error) {
	filter := store.UsedDayFilter{AccountID: f.Account, SIMID: f.SIM, FromAt: f.FromAt, UntilAt: f.UntilAt, Limit: exportPage}
	return func(ctx context.Context) (page, error) {
		list, err := x.Store.UsedDays(ctx, filter)
		return pageOf(list, func(u store.UsedDay) []string {
			filter.AfterSIM, filter.AfterDay = u.SIMID, u.Day
			return []string{u.ICCID, u.Account, u.Day.Format(time.DateOnly), number(u.Bytes)}
		}), err
	}
}

func pageOf[T any](list []T, cells func(T) []string) page {
	p := page{rows: make([][]string, len(list)), more: len(list) == exportPage}
	for i, v := range list {
		p.rows[i] = cells(v)
	}
	return p
}

func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
