package api

import (
	"context"

	"github.com/simwarden/simwarden/internal/store"
)

type auditList struct {
	Paging
	ICCID   string `query:"iccid" maxLength:"64"`
	Account string `query:"account" maxLength:"64" doc:"An account's name"`
	Actor   string `query:"actor" maxLength:"200" doc:"Who did it, as in the list"`
	Action  string `query:"action" maxLength:"64"`
}

type guardList struct {
	All bool `query:"all" doc:"Those that were released as well"`
}

type guardRelease struct {
	ID   int64 `path:"id" minimum:"1"`
	Body struct {
		Reason string `json:"reason" minLength:"1" maxLength:"500" doc:"Why what it holds may go on"`
	}
}

func (r *rest) audit() {
	on(r, get("/audit", "list-audit", "List what persons did, newest first"), func(ctx context.Context, in *auditList) (Page[store.AuditRow], error) {
		return r.service.Audit(ctx, AuditQuery{ICCID: in.ICCID, Account: in.Account, Actor: in.Actor, Action: in.Action, Cursor: in.Cursor, Limit: in.Limit})
	})
	on(r, get("/audit/verification", "verify-audit", "Compare the whole audit log with its chain"), func(ctx context.Context, _ *struct{}) (AuditVerdict, error) {
		return r.service.VerifyAudit(ctx)
	})
	on(r, get("/guards", "list-guards", "List what stops lapsing until a person releases it"), func(ctx context.Context, in *guardList) (items[store.Guard], error) {
		list, err := r.service.Guards(ctx, in.All)
		return items[store.Guard]{list}, err
	})
	on(r, post("/guards/{id}/release", "release-guard", "Let go what a guard holds"), func(ctx context.Context, in *guardRelease) (store.Guard, error) {
		return r.service.ReleaseGuard(ctx, in.ID, actorOf(ctx), in.Body.Reason)
	})
}
