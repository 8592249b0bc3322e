package api

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/transfer"
)

// ErrExportsBusy says that as many exports are under way as go at a time.
var ErrExportsBusy = errors.New("other exports are under way; ask again in a minute")

// maxExports is how many exports go at a time over the API: each holds a page of rows and a connection
// now and then.
const maxExports = 4

// ExportQuery narrows an export; zero fields do not. What an export does not know must be zero.
type ExportQuery struct {
	Account string // by name
	ICCID   string
	State   simwarden.State
	Ended   bool // subscriptions that have ended as well
	FromAt  time.Time
	UntilAt time.Time
}

// Export gives what writes a CSV file of a kind, checked before (I4): its error is the database's or
// the writer's alone.
func (s *Service) Export(ctx context.Context, kind transfer.Kind, q ExportQuery) (func(context.Context, io.Writer) (rows int, err error), error) {
	f := transfer.ExportFilter{State: q.State, Ended: q.Ended, FromAt: q.FromAt, UntilAt: q.UntilAt}
	var err error
	switch {
	case !isOneOf(kind, transfer.Exports()):
		return nil, notOneOf("export", kind, transfer.Exports())
	case q.State != "" && !isOneOf(q.State, simwarden.States()):
		return nil, notOneOf("state", q.State, simwarden.States())
	case !q.FromAt.IsZero() && !q.UntilAt.IsZero() && !q.FromAt.Before(q.UntilAt):
		return nil, badInput("the range ends before it begins")
	}
	if f.Account, err = s.accountID(ctx, q.Account); err != nil {
		return nil, err
	}
	if f.SIM, err = s.simID(ctx, q.ICCID); err != nil {
		return nil, err
	}
	x := transfer.Exporter{Store: s.Store}
	return func(ctx context.Context, w io.Writer) (int, error) { return x.Write(ctx, w, kind, f) }, nil
}
