package api

import (
	"context"
	"fmt"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
)

// RecordQuery narrows a list of records; zero fields do not. They ended from FromAt to before
// UntilAt, UTC.
type RecordQuery struct {
	ICCID     string
	Account   string
	Direction simwarden.Direction
	Scene     simwarden.Scene
	Status    simwarden.CommandState
	FromAt    time.Time
	UntilAt   time.Time
	Cursor    string
	Limit     int // 0: DefaultPage; at most MaxPage
}

// Records lists what became of commands (R1), the newest command first.
func (s *Service) Records(ctx context.Context, q RecordQuery) (Page[store.Record], error) {
	none := Page[store.Record]{}
	limit, err := pageLimit(q.Limit)
	if err != nil {
		return none, err
	}
	before, err := cursorID("record", q.Cursor)
	if err != nil {
		return none, err
	}
	switch {
	case q.Direction != "" && !isOneOf(q.Direction, directions):
		return none, notOneOf("direction", q.Direction, directions)
	case q.Scene != "" && !isOneOf(q.Scene, simwarden.Scenes()):
		return none, notOneOf("scene", q.Scene, simwarden.Scenes())
	case q.Status != "" && !isOneOf(q.Status, simwarden.CommandStates()):
		return none, notOneOf("status", q.Status, simwarden.CommandStates())
	}
	f := store.RecordFilter{Direction: q.Direction, Scene: q.Scene, Status: q.Status, FromAt: q.FromAt, UntilAt: q.UntilAt,
		Before: simwarden.CommandID(before), Limit: limit + 1}
	if f.AccountID, err = s.accountID(ctx, q.Account); err != nil {
		return none, err
	}
	if f.SIMID, err = s.simID(ctx, q.ICCID); err != nil {
		return none, err
	}
	rows, err := s.Store.Records(ctx, f)
	if err != nil {
		return none, err
	}
	return pageOf(rows, limit, "record", func(r store.Record) int64 { return int64(r.CommandID) }), nil
}

// Record gives the record of one command; store.ErrNotFound while that is open.
func (s *Service) Record(ctx context.Context, command simwarden.CommandID) (store.Record, error) {
	if command <= 0 {
		return store.Record{}, badInput("a command's id is 1 or more")
	}
	rows, err := s.Store.Records(ctx, store.RecordFilter{CommandID: command, Limit: 1})
	if err != nil {
		return store.Record{}, err
	}
	if len(rows) == 0 {
		return store.Record{}, fmt.Errorf("record of command %d: %w", command, store.ErrNotFound)
	}
	return rows[0], nil
}
