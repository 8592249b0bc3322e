package api

import (
	"context"

	"github.com/simwarden/simwarden/internal/ledger"
	"github.com/simwarden/simwarden/internal/store"
)

type walletList struct {
	Cursor string `query:"cursor" maxLength:"180" doc:"The next_cursor of the page before"`
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"100" doc:"Rows a page"`
}

type walletAdd struct {
	Body struct {
		Name        string `json:"name" minLength:"1" maxLength:"64" doc:"Unique, as people type it"`
		CreditLimit amount `json:"credit_limit" doc:"How far below zero it may go, 0 for not at all; its currency is the wallet's, for good"`
	} `nameHint:"WalletRequest"`
}

type walletPatch struct {
	NamePath
	Body struct {
		CreditLimit amount `json:"credit_limit" doc:"How far below zero it may go"`
	} `nameHint:"WalletPatch"`
}

type topUp struct {
	NamePath
	Idempotent
	Body struct {
		Amount amount `json:"amount" doc:"Money that has come from outside, in the wallet's currency"`
		Note   string `json:"note,omitempty" maxLength:"500" doc:"For the statement, such as the number of the payment"`
	} `nameHint:"TopUpRequest"`
}

type walletEntries struct {
	NamePath
	Paging
}

// assignRequest is the body that says which wallet pays.
type assignRequest struct {
	Wallet string `json:"wallet" maxLength:"64" doc:"A wallet's name; empty to take the wallet away"`
}

type simWallet struct {
	SIMPath
	Body assignRequest
}

type deviceWallet struct {
	IMEIPath
	Body assignRequest
}

func (r *rest) wallets() {
	on(r, get("/wallets", "list-wallets", "List the wallets with their balances"), func(ctx context.Context, in *walletList) (Page[WalletView], error) {
		return r.service.Wallets(ctx, in.Cursor, in.Limit)
	})
	on(r, created(post("/wallets", "add-wallet", "Add an empty wallet")), func(ctx context.Context, in *walletAdd) (WalletView, error) {
		return r.service.AddWallet(ctx, in.Body.Name, in.Body.CreditLimit.money(), actorOf(ctx))
	})
	on(r, get("/wallets/{name}", "get-wallet", "Get one wallet with its balance"), func(ctx context.Context, in *NamePath) (WalletView, error) {
		return r.service.Wallet(ctx, in.Name)
	})
	on(r, patch("/wallets/{name}", "change-wallet", "Change a wallet's credit limit"), func(ctx context.Context, in *walletPatch) (WalletView, error) {
		return r.service.SetCreditLimit(ctx, in.Name, in.Body.CreditLimit.money(), actorOf(ctx))
	})
	on(r, created(post("/wallets/{name}/top-ups", "top-up-wallet", "Add money to a wallet")), func(ctx context.Context, in *topUp) (ledger.Transaction, error) {
		return r.service.TopUp(ctx, in.Name, in.Body.Amount.money(), in.Body.Note, in.Key, actorOf(ctx))
	})
	on(r, get("/wallets/{name}/entries", "list-wallet-entries", "List what has moved a wallet's balance, the latest first"),
		func(ctx context.Context, in *walletEntries) (Page[store.StatementLine], error) {
			return r.service.WalletEntries(ctx, in.Name, in.Cursor, in.Limit)
		})
	on(r, post("/sims/{iccid}/wallet", "assign-sim-wallet", "Say which wallet pays for a SIM or its device"),
		func(ctx context.Context, in *simWallet) (Assignment, error) {
			return r.service.AssignWallet(ctx, in.ICCID, in.Body.Wallet, actorOf(ctx))
		})
	on(r, post("/devices/{imei}/wallet", "assign-device-wallet", "Say which wallet pays for a device"),
		func(ctx context.Context, in *deviceWallet) (Assignment, error) {
			return r.service.AssignDeviceWallet(ctx, in.IMEI, in.Body.Wallet, actorOf(ctx))
		})
}
