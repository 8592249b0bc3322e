package api

import (
	"context"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
)

// amount is money as requests have it.
type amount struct {
	AmountMinor int64  `json:"amount_minor" maximum:"9007199254740991" doc:"In minor units of the currency: cents of EUR, yen of JPY"`
	Currency    string `json:"currency" minLength:"3" maxLength:"3" doc:"A code of ISO 4217" example:"EUR"`
}

func (a amount) money() simwarden.Money {
	return simwarden.Money{AmountMinor: a.AmountMinor, Currency: a.Currency}
}

// subscribeRequest is the body of an order.
type subscribeRequest struct {
	Plan  string `json:"plan" minLength:"1" maxLength:"64" doc:"A plan's code"`
	Pay   bool   `json:"pay,omitempty" doc:"Take the plan's price from the wallet that pays for the SIM or device"`
	Renew bool   `json:"renew,omitempty" doc:"Buy a main plan again at its end, from the wallet"`
}

func (p subscribeRequest) order(key string) Purchase {
	return Purchase{Plan: p.Plan, Pay: p.Pay, Renew: p.Renew, Key: key}
}

type subscribe struct {
	SIMPath
	Idempotent
	Body subscribeRequest
}

type deviceSubscribe struct {
	IMEIPath
	Idempotent
	Body subscribeRequest
}

type refund struct {
	ID int64 `path:"id" minimum:"1"`
	Idempotent
	Body struct {
		Reason    string  `json:"reason" minLength:"1" maxLength:"500" doc:"Why, for the audit log and whoever asks later"`
		Amount    *amount `json:"amount,omitempty" doc:"What the buyer gets back; absent: all that is left of what was paid"`
		KeepMoney bool    `json:"keep_money,omitempty" doc:"Give nothing back"`
	} `nameHint:"RefundRequest"`
}

type cancelSubscription struct {
	SubscriptionPath
	Idempotent
	Body struct {
		Reason    string `json:"reason" minLength:"1" maxLength:"500" doc:"Why, for the audit log and whoever asks later"`
		KeepMoney bool   `json:"keep_money,omitempty" doc:"Give nothing back"`
	} `nameHint:"CancelRequest"`
}

type subscriptionList struct {
	Paging
	Account string `query:"account" maxLength:"64" doc:"An account's name; of a device: where one of its SIMs is of it"`
	State   string `query:"state" maxLength:"32"`
	Plan    string `query:"plan" maxLength:"64" doc:"A plan's code"`
	Live    bool   `query:"live" doc:"Only those that are queued, active or exhausted"`
}

// SubscriptionPath names a subscription.
type SubscriptionPath struct {
	ID int64 `path:"id" minimum:"1"`
}

type renewal struct {
	ID   int64 `path:"id" minimum:"1"`
	Body struct {
		Renew bool   `json:"renew" doc:"Whether it is bought again at its end"`
		Plan  string `json:"plan,omitempty" maxLength:"64" doc:"The code of the main plan that it is bought again as; absent: as itself"`
	} `nameHint:"RenewalRequest"`
}

func (r *rest) subscriptions() {
	on(r, created(post("/sims/{iccid}/subscriptions", "subscribe-sim", "Buy a plan for a SIM or its device")),
		func(ctx context.Context, in *subscribe) (simwarden.Subscription, error) {
			return r.service.Subscribe(ctx, in.ICCID, in.Body.order(in.Key), actorOf(ctx))
		})
	on(r, created(post("/devices/{imei}/subscriptions", "subscribe-device", "Buy a plan for a device with all its SIMs")),
		func(ctx context.Context, in *deviceSubscribe) (simwarden.Subscription, error) {
			return r.service.SubscribeDevice(ctx, in.IMEI, in.Body.order(in.Key), actorOf(ctx))
		})
	on(r, get("/subscriptions", "list-subscriptions", "List subscriptions in the order in which they were bought"),
		func(ctx context.Context, in *subscriptionList) (Page[store.SoldSubscription], error) {
			return r.service.SoldSubscriptions(ctx, SubscriptionQuery{Account: in.Account, State: simwarden.SubscriptionState(in.State), Plan: in.Plan, Live: in.Live,
				Cursor: in.Cursor, Limit: in.Limit})
		})
	on(r, get("/subscriptions/{id}", "get-subscription", "Get one subscription"), func(ctx context.Context, in *SubscriptionPath) (store.SoldSubscription, error) {
		return r.service.SoldSubscription(ctx, simwarden.SubscriptionID(in.ID))
	})
	on(r, post("/subscriptions/{id}/refund", "refund-subscription", "Take a subscription back, and give back what was paid"),
		func(ctx context.Context, in *refund) (TakenBack, error) {
			t := Takeback{SubscriptionID: simwarden.SubscriptionID(in.ID), KeepMoney: in.Body.KeepMoney, Reason: in.Body.Reason, Key: in.Key}
			if in.Body.Amount != nil {
				m := in.Body.Amount.money()
				t.Amount = &m
			}
			return r.service.Refund(ctx, t, actorOf(ctx))
		})
	on(r, post("/subscriptions/{id}/cancel", "cancel-subscription", "Cancel a subscription that has not begun, and give back what was paid"),
		func(ctx context.Context, in *cancelSubscription) (TakenBack, error) {
			return r.service.Refund(ctx, Takeback{SubscriptionID: simwarden.SubscriptionID(in.ID), Cancel: true, KeepMoney: in.Body.KeepMoney, Reason: in.Body.Reason, Key: in.Key}, actorOf(ctx))
		})
	on(r, post("/subscriptions/{id}/renewal", "set-renewal", "Say whether a subscription is bought again at its end"),
		func(ctx context.Context, in *renewal) (simwarden.Subscription, error) {
			return r.service.SetRenewal(ctx, simwarden.SubscriptionID(in.ID), in.Body.Renew, in.Body.Plan, actorOf(ctx))
		})
}
