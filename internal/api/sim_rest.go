package api

import (
	"context"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
)

// SIMPath, NamePath and Paging are exported because huma sees no parameters in a type that is not.

// SIMPath names a SIM.
type SIMPath struct {
	ICCID string `path:"iccid" maxLength:"64" doc:"As people write it: with or without check digit, spaces, filler" example:"89860012345678901234"`
}

// Paging says which page of a list.
type Paging struct {
	Cursor string `query:"cursor" maxLength:"64" doc:"The next_cursor of the page before"`
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"100" doc:"Rows a page"`
}

// why is what a person says of an action.
type why struct {
	Reason string `json:"reason" minLength:"1" maxLength:"500" doc:"Why, for the audit log and whoever asks later"`
}

type simList struct {
	Paging
	Account  string `query:"account" maxLength:"64" doc:"An account's name"`
	State    string `query:"state" maxLength:"32"`
	Desired  string `query:"desired" maxLength:"32" doc:"What the last decision wants"`
	Reason   string `query:"reason" maxLength:"32" doc:"Those for which this reason holds, the first or not"`
	Drifting bool   `query:"drifting" doc:"Only those not as wanted with nothing under way"`
	Paused   bool   `query:"paused" doc:"Only those whose polling a person has paused"`
	Closed   bool   `query:"closed" doc:"Only those whose polling is closed, since the carrier blocks them or has ended them"`
	Extended string `query:"extended_state" maxLength:"32"`
	Search   string `query:"search" maxLength:"64" doc:"The beginning of an ICCID or label"`
}

type simOrder struct {
	SIMPath
	Body why
}

type simOrderMaybe struct {
	SIMPath
	Body *why
}

// PollingChange is what came of pausing or resuming.
type PollingChange struct {
	SIM     store.SIM `json:"sim"`
	Changed bool      `json:"changed" doc:"False where it was so already"`
}

type simEvents struct {
	SIMPath
	Paging
}

type simUsage struct {
	SIMPath
	From time.Time `query:"from" doc:"From this UTC day on; default: of the last 90 days"`
}

type simCommands struct {
	SIMPath
	Paging
	Open bool `query:"open" doc:"Only those that have not ended"`
}

func (r *rest) sims() {
	on(r, get("/sims", "list-sims", "List SIMs"), func(ctx context.Context, in *simList) (Page[store.SIM], error) {
		return r.service.SIMs(ctx, SIMQuery{Account: in.Account, State: simwarden.State(in.State), Desired: simwarden.Desired(in.Desired),
			Reason: simwarden.Reason(in.Reason), Drifting: in.Drifting, Paused: in.Paused,
			Closed: in.Closed, Extended: simwarden.ExtendedState(in.Extended), Search: in.Search, Cursor: in.Cursor, Limit: in.Limit})
	})
	on(r, get("/sims/{iccid}", "get-sim", "Get one SIM"), func(ctx context.Context, in *SIMPath) (store.SIM, error) {
		return r.service.FindSIM(ctx, in.ICCID)
	})
	on(r, get("/sims/{iccid}/explain", "explain-sim", "Say why a SIM is as it is, and what happens next"),
		func(ctx context.Context, in *SIMPath) (Explanation, error) { return r.service.Explain(ctx, in.ICCID) })
	on(r, post("/sims/{iccid}/polling/pause", "pause-polling", "Pause the polling of a SIM"), func(ctx context.Context, in *simOrder) (PollingChange, error) {
		return r.polling(ctx, in.ICCID, true, in.Body.Reason)
	})
	on(r, post("/sims/{iccid}/polling/resume", "resume-polling", "Take the polling of a SIM up again, paused or closed"),
		func(ctx context.Context, in *simOrderMaybe) (PollingChange, error) {
			return r.polling(ctx, in.ICCID, false, reasonOf(in.Body))
		})
	for direction, summary := range map[simwarden.Direction]string{
		simwarden.DirectionSuspend: "Suspend a SIM by hand and hold it so",
		simwarden.DirectionResume:  "Resume a SIM by hand and lift the hold",
	} {
		on(r, post("/sims/{iccid}/"+string(direction), string(direction)+"-sim", summary), func(ctx context.Context, in *simOrder) (Ordered, error) {
			return r.service.Manual(ctx, in.ICCID, direction, actorOf(ctx), in.Body.Reason)
		})
	}
	on(r, looks(post("/sims/{iccid}/refresh", "refresh-sim", "Read a SIM at its carrier now: at once, past the limits, counted and audited; a token may do so 30 times in a row, then once every 2 seconds")),
		func(ctx context.Context, in *SIMPath) (SIMRefreshed, error) {
			return r.service.Refresh(ctx, in.ICCID, actorOf(ctx))
		})
	on(r, get("/sims/{iccid}/commands", "list-sim-commands", "List the commands of a SIM, newest first"),
		func(ctx context.Context, in *simCommands) (Page[store.Command], error) {
			return r.service.Commands(ctx, CommandQuery{ICCID: in.ICCID, OpenOnly: in.Open, Cursor: in.Cursor, Limit: in.Limit})
		})
	on(r, get("/sims/{iccid}/events", "list-sim-events", "List what happened to a SIM, newest first"), func(ctx context.Context, in *simEvents) (Page[store.Event], error) {
		return r.service.Events(ctx, in.ICCID, in.Cursor, in.Limit)
	})
	on(r, get("/sims/{iccid}/usage-days", "list-sim-usage-days", "List the bytes that a SIM used by UTC day, oldest first; days without are absent"),
		func(ctx context.Context, in *simUsage) (items[store.UsageDay], error) {
			list, err := r.service.UsageDays(ctx, in.ICCID, in.From)
			return items[store.UsageDay]{list}, err
		})
	on(r, get("/sims/{iccid}/subscriptions", "list-sim-subscriptions", "List what was bought for a SIM or its device, newest first"),
		func(ctx context.Context, in *SIMPath) (items[simwarden.Subscription], error) {
			list, err := r.service.Subscriptions(ctx, in.ICCID)
			return items[simwarden.Subscription]{list}, err
		})
}

func (r *rest) polling(ctx context.Context, iccid string, pause bool, reason string) (PollingChange, error) {
	sim, changed, err := r.service.Polling(ctx, iccid, pause, actorOf(ctx), reason)
	return PollingChange{SIM: sim, Changed: changed}, err
}

func reasonOf(w *why) string {
	if w == nil {
		return ""
	}
	return w.Reason
}
