package api

import (
	"context"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/plans"
	"github.com/simwarden/simwarden/internal/store"
)

type poolAdd struct {
	Body struct {
		Name           string               `json:"name" minLength:"1" maxLength:"64" doc:"Unique, as people type it"`
		AllowanceBytes int64                `json:"allowance_bytes" minimum:"1" doc:"What the members share in each period"`
		Policy         simwarden.PoolPolicy `json:"policy,omitempty" doc:"all stops all members when it is used up, over_cap those that have drawn their own cap; default all"`
		CapBytes       int64                `json:"cap_bytes,omitempty" minimum:"0" doc:"The cap of members that have none of their own; 0 for none: such stop with the pool"`
		Reset          simwarden.ResetKind  `json:"reset,omitempty" doc:"When the allowance is full again; default none"`
		ResetDays      int                  `json:"reset_days,omitempty" minimum:"0" maximum:"3660" doc:"The length of a cycle"`
		AnchorDay      int                  `json:"anchor_day,omitempty" minimum:"0" maximum:"31" doc:"The first day of a billing month"`
		Zone           string               `json:"zone,omitempty" maxLength:"64" doc:"IANA time zone; empty: UTC"`
	} `nameHint:"PoolRequest"`
}

type poolPatch struct {
	NamePath
	Body struct {
		Policy         *simwarden.PoolPolicy `json:"policy,omitempty"`
		AllowanceBytes *int64                `json:"allowance_bytes,omitempty" minimum:"1" doc:"From the running period on"`
		CapBytes       *int64                `json:"cap_bytes,omitempty" minimum:"0"`
	} `nameHint:"PoolPatch"`
}

type poolTopUp struct {
	NamePath
	Idempotent
	Body struct {
		Bytes int64  `json:"bytes" minimum:"1" doc:"Added to the running period alone"`
		Note  string `json:"note,omitempty" maxLength:"500"`
	} `nameHint:"PoolTopUpRequest"`
}

type poolMembers struct {
	NamePath
	Paging
}

type poolMembersAdd struct {
	NamePath
	Body struct {
		SIMs     []string `json:"sims,omitempty" maxItems:"500" doc:"ICCIDs"`
		Devices  []string `json:"devices,omitempty" maxItems:"500" doc:"IMEIs; a device is in with all its SIMs"`
		CapBytes *int64   `json:"cap_bytes,omitempty" minimum:"0" doc:"Their own cap; absent: the pool's"`
	} `nameHint:"PoolMembersRequest"`
}

type poolMembersRemove struct {
	NamePath
	Body struct {
		SIMs    []string `json:"sims,omitempty" maxItems:"500" doc:"ICCIDs"`
		Devices []string `json:"devices,omitempty" maxItems:"500" doc:"IMEIs"`
	} `nameHint:"PoolMembersRemoval"`
}

func (r *rest) pools() {
	on(r, get("/pools", "list-pools", "List the pools"), func(ctx context.Context, in *struct{ Paging }) (Page[store.Pool], error) {
		return r.service.Pools(ctx, in.Cursor, in.Limit)
	})
	on(r, created(post("/pools", "add-pool", "Add a pool: an allowance that several SIMs and devices share")), func(ctx context.Context, in *poolAdd) (store.Pool, error) {
		b := in.Body
		return r.service.AddPool(ctx, store.Pool{Name: b.Name, AllowanceBytes: b.AllowanceBytes, Policy: b.Policy, CapBytes: b.CapBytes,
			Reset: b.Reset, ResetDays: b.ResetDays, AnchorDay: b.AnchorDay, Zone: b.Zone}, actorOf(ctx))
	})
	on(r, get("/pools/{name}", "get-pool", "Get one pool with its periods, top-ups and evaluations"), func(ctx context.Context, in *NamePath) (PoolView, error) {
		return r.service.Pool(ctx, in.Name)
	})
	on(r, patch("/pools/{name}", "change-pool", "Change a pool's policy, allowance or cap; its members are judged in the background"),
		func(ctx context.Context, in *poolPatch) (store.Pool, error) {
			return r.service.ChangePool(ctx, in.Name, plans.PoolChange{Policy: in.Body.Policy, AllowanceBytes: in.Body.AllowanceBytes, CapBytes: in.Body.CapBytes}, actorOf(ctx))
		})
	on(r, created(post("/pools/{name}/top-ups", "top-up-pool", "Add data to a pool's running period; its members are judged in the background")),
		func(ctx context.Context, in *poolTopUp) (PoolToppedUp, error) {
			return r.service.TopUpPool(ctx, in.Name, in.Body.Bytes, in.Body.Note, in.Key, actorOf(ctx))
		})
	on(r, get("/pools/{name}/members", "list-pool-members", "List a pool's members with what they have drawn"),
		func(ctx context.Context, in *poolMembers) (Page[store.PoolMember], error) {
			return r.service.PoolMembers(ctx, in.Name, in.Cursor, in.Limit)
		})
	on(r, post("/pools/{name}/members", "add-pool-members", "Put SIMs and devices into a pool, each with its own answer"),
		func(ctx context.Context, in *poolMembersAdd) (items[PoolMove], error) {
			list, err := r.service.AddPoolMembers(ctx, in.Name, Candidates{in.Body.SIMs, in.Body.Devices}, in.Body.CapBytes, actorOf(ctx))
			return items[PoolMove]{list}, err
		})
	on(r, post("/pools/{name}/members/remove", "remove-pool-members", "Take SIMs and devices out of a pool, each with its own answer"),
		func(ctx context.Context, in *poolMembersRemove) (items[PoolMove], error) {
			list, err := r.service.RemovePoolMembers(ctx, in.Name, Candidates{in.Body.SIMs, in.Body.Devices}, actorOf(ctx))
			return items[PoolMove]{list}, err
		})
}
