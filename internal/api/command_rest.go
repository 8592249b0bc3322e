package api

import (
	"context"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
)

type commandList struct {
	Paging
	ICCID   string `query:"iccid" maxLength:"64"`
	Account string `query:"account" maxLength:"64" doc:"An account's name"`
	State   string `query:"state" maxLength:"32"`
	Open    bool   `query:"open" doc:"Only those that have not ended"`
	Held    bool   `query:"held" doc:"Only those that wait for something, such as the safety brake: held_by says for what"`
}

type commandPath struct {
	ID int64 `path:"id" minimum:"1"`
}

func (r *rest) commands() {
	on(r, get("/commands", "list-commands", "List suspend and resume commands, newest first"), func(ctx context.Context, in *commandList) (Page[store.Command], error) {
		return r.service.Commands(ctx, CommandQuery{ICCID: in.ICCID, Account: in.Account, State: simwarden.CommandState(in.State), OpenOnly: in.Open, HeldOnly: in.Held,
			Cursor: in.Cursor, Limit: in.Limit})
	})
	on(r, get("/commands/{id}", "get-command", "Get one command with its attempts"), func(ctx context.Context, in *commandPath) (CommandDetail, error) {
		return r.service.Command(ctx, simwarden.CommandID(in.ID))
	})
}
