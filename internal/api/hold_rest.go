package api

import (
	"context"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/ledger"
	"github.com/simwarden/simwarden/internal/store"
)

type adjust struct {
	NamePath
	Idempotent
	Body struct {
		Amount amount `json:"amount" doc:"Positive adds to the wallet, negative takes from it"`
		Note   string `json:"note" minLength:"1" maxLength:"500" doc:"Why, for the statement and the audit log"`
	} `nameHint:"AdjustmentRequest"`
}

type holdPlace struct {
	NamePath
	Idempotent
	Body struct {
		Amount    amount    `json:"amount" doc:"In the wallet's currency"`
		ExpiresAt time.Time `json:"expires_at" doc:"When it is given back by itself, at most 366 days ahead"`
		Note      string    `json:"note,omitempty" maxLength:"500"`
	} `nameHint:"HoldRequest"`
}

type holdList struct {
	NamePath
	Paging
}

type holdCapture struct {
	ID int64 `path:"id" minimum:"1"`
	Idempotent
	Body struct {
		SubscriptionID int64   `json:"subscription_id" minimum:"1" doc:"What is paid; it must not be paid yet"`
		Amount         *amount `json:"amount,omitempty" doc:"Absent: all that is held; what is left goes back to the wallet"`
		Note           string  `json:"note,omitempty" maxLength:"500"`
	} `nameHint:"CaptureRequest"`
}

type holdRelease struct {
	ID int64 `path:"id" minimum:"1"`
	Idempotent
	Body why
}

func (r *rest) holds() {
	on(r, created(post("/wallets/{name}/adjustments", "adjust-wallet", "Correct a wallet by a person's word")),
		func(ctx context.Context, in *adjust) (ledger.Transaction, error) {
			return r.service.Adjust(ctx, in.Name, in.Body.Amount.money(), in.Body.Note, in.Key, actorOf(ctx))
		})
	on(r, created(post("/wallets/{name}/holds", "place-hold", "Set money of a wallet aside")),
		func(ctx context.Context, in *holdPlace) (store.Hold, error) {
			return r.service.PlaceHold(ctx, in.Name, in.Body.Amount.money(), in.Body.ExpiresAt, in.Body.Note, in.Key, actorOf(ctx))
		})
	on(r, get("/wallets/{name}/holds", "list-holds", "List the holds of a wallet, the latest first"),
		func(ctx context.Context, in *holdList) (Page[store.Hold], error) {
			return r.service.Holds(ctx, in.Name, in.Cursor, in.Limit)
		})
	on(r, post("/holds/{id}/capture", "capture-hold", "Pay a subscription with held money"),
		func(ctx context.Context, in *holdCapture) (ledger.Transaction, error) {
			var m *simwarden.Money
			if in.Body.Amount != nil {
				given := in.Body.Amount.money()
				m = &given
			}
			return r.service.CaptureHold(ctx, simwarden.HoldID(in.ID), simwarden.SubscriptionID(in.Body.SubscriptionID), m, in.Body.Note, in.Key, actorOf(ctx))
		})
	on(r, post("/holds/{id}/release", "release-hold", "Give held money back to its wallet"),
		func(ctx context.Context, in *holdRelease) (ledger.Transaction, error) {
			return r.service.ReleaseHold(ctx, simwarden.HoldID(in.ID), in.Body.Reason, in.Key, actorOf(ctx))
		})
}
