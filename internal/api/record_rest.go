package api

import (
	"context"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
)

type recordList struct {
	Paging
	ICCID     string    `query:"iccid" maxLength:"64"`
	Account   string    `query:"account" maxLength:"64" doc:"An account's name"`
	Direction string    `query:"direction" maxLength:"32"`
	Scene     string    `query:"scene" maxLength:"32"`
	Status    string    `query:"status" maxLength:"32"`
	From      time.Time `query:"from" doc:"Ended at this instant or later"`
	Until     time.Time `query:"until" doc:"Ended before this instant"`
}

func (r *rest) records() {
	on(r, get("/records", "list-records", "List what became of commands, newest command first"), func(ctx context.Context, in *recordList) (Page[store.Record], error) {
		return r.service.Records(ctx, RecordQuery{ICCID: in.ICCID, Account: in.Account, Direction: simwarden.Direction(in.Direction),
			Scene: simwarden.Scene(in.Scene), Status: simwarden.CommandState(in.Status), FromAt: in.From, UntilAt: in.Until, Cursor: in.Cursor, Limit: in.Limit})
	})
	on(r, get("/records/{id}", "get-record", "Get the record of one command, by the command's id"), func(ctx context.Context, in *commandPath) (store.Record, error) {
		return r.service.Record(ctx, simwarden.CommandID(in.ID))
	})
}
