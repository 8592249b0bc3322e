package cli

import (
	"context"
	"fmt"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/api"
	"github.com/simwarden/simwarden/internal/ledger"
)

type walletCmd struct {
	Add         walletAddCmd    `cmd:"" help:"Add an empty wallet."`
	List        walletListCmd   `cmd:"" help:"List the wallets with their balances."`
	Show        walletShowCmd   `cmd:"" help:"Show a wallet's balance and what has moved it."`
	TopUp       walletTopUpCmd  `cmd:"" name:"top-up" help:"Add money that has come from outside."`
	Adjust      walletAdjustCmd `cmd:"" help:"Correct a wallet: add money to it or take some from it, with a reason."`
	Hold        holdCmd         `cmd:"" help:"Money that is set aside: place, list, capture, release."`
	Assign      walletAssignCmd `cmd:"" help:"Let a wallet pay for a SIM or a device."`
	CreditLimit walletLimitCmd  `cmd:"" name:"credit-limit" help:"Set how far below zero a wallet may go."`
}

type walletAddCmd struct {
	Name        string `arg:"" help:"Short and unique, as you will type it."`
	Currency    string `arg:"" help:"Its currency for good, a code of ISO 4217 such as CNY or EUR."`
	CreditLimit string `help:"How far below zero it may go, such as 50.00." default:"0" placeholder:"AMOUNT"`
}

// Run adds a wallet (M1).
func (c *walletAddCmd) Run(ctx context.Context, g *Globals) error {
	limit, err := ledger.ParseAmount(c.CreditLimit, c.Currency)
	if err != nil {
		return err
	}
	return g.with(ctx, func(e *env) error {
		w, err := e.AddWallet(ctx, c.Name, limit, actor())
		if err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, w)
		}
		fmt.Fprintf(g.Out, "Wallet %s is added. Let it pay for a SIM: simwarden wallet assign %s ICCID\n", w.Name, w.Name)
		return nil
	})
}

type walletListCmd struct{}

// Run lists the wallets.
func (c *walletListCmd) Run(ctx context.Context, g *Globals) error {
	return g.with(ctx, func(e *env) error {
		list, err := allPages(func(cursor string) (api.Page[api.WalletView], error) { return e.Wallets(ctx, cursor, api.MaxPage) })
		if err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, list)
		}
		t := newTable("NAME", "BALANCE", "HELD", "CREDIT LIMIT", "AVAILABLE")
		for _, w := range list {
			t.add(w.Name, minor(w.BalanceMinor, w.Currency), minor(w.HeldMinor, w.Currency), minor(w.CreditLimitMinor, w.Currency), minor(w.AvailableMinor, w.Currency))
		}
		t.print(g.Out)
		return nil
	})
}

// allPages reads a list to its end.
func allPages[T any](page func(cursor string) (api.Page[T], error)) ([]T, error) {
	all := []T{}
	for cursor := ""; ; {
		p, err := page(cursor)
		if err != nil {
			return nil, err
		}
		all = append(all, p.Items...)
		if cursor = p.Next; cursor == "" {
			return all, nil
		}
	}
}

func minor(n int64, currency string) string {
	return ledger.Format(simwarden.Money{AmountMinor: n, Currency: currency})
}

type walletShowCmd struct {
	Name  string `arg:"" help:"The wallet."`
	Limit int    `help:"How many of the latest entries to show, 1 to 500." default:"20"`
}

// Run shows a wallet.
func (c *walletShowCmd) Run(ctx context.Context, g *Globals) error {
	return g.with(ctx, func(e *env) error {
		w, err := e.Wallet(ctx, c.Name)
		if err != nil {
			return err
		}
		page, err := e.WalletEntries(ctx, c.Name, "", c.Limit)
		if err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, struct {
				api.WalletView
				Entries any `json:"entries"`
			}{w, page.Items})
		}
		fmt.Fprintf(g.Out, "%s has %s; %s is held, %s can be spent.\n", w.Name,
			minor(w.BalanceMinor, w.Currency), minor(w.HeldMinor, w.Currency), minor(w.AvailableMinor, w.Currency))
		t := newTable("AT", "WHAT", "CHANGE", "BALANCE", "SUBSCRIPTION", "BY", "NOTE")
		for _, l := range page.Items {
			sub := ""
			if l.SubscriptionID != 0 {
				sub = fmt.Sprint(l.SubscriptionID)
			}
			t.add(instant(l.At), string(l.Kind), minor(l.ChangeMinor, w.Currency), minor(l.BalanceAfterMinor, w.Currency), sub, l.Actor, l.Note)
		}
		t.print(g.Out)
		return nil
	})
}

type walletTopUpCmd struct {
	Name   string `arg:"" help:"The wallet."`
	Amount string `arg:"" help:"With its currency, such as 50.00EUR."`
	Note   string `help:"For the statement, such as the number of the payment."`
	keyFlag
}

// Run tops a wallet up (M2).
func (c *walletTopUpCmd) Run(ctx context.Context, g *Globals) error {
	m, err := ledger.Parse(c.Amount)
	if err != nil {
		return err
	}
	return g.with(ctx, func(e *env) error {
		t, err := e.TopUp(ctx, c.Name, m, c.Note, c.Key, actor())
		if err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, t)
		}
		if t.Replayed {
			fmt.Fprintf(g.Out, "This was booked before, as transaction %d; nothing was done now.\n", t.ID)
			return nil
		}
		fmt.Fprintf(g.Out, "%s is in wallet %s, as transaction %d.\n", ledger.Format(t.Money), c.Name, t.ID)
		return nil
	})
}

type walletAssignCmd struct {
	Name   string `arg:"" help:"The wallet; none to take the wallet away."`
	ICCID  string `arg:"" optional:"" help:"The SIM's ICCID; where it is in a device, the device's plans are paid."`
	Device string `help:"A device's IMEI in place of a SIM." placeholder:"IMEI"`
}

// Run assigns a wallet.
func (c *walletAssignCmd) Run(ctx context.Context, g *Globals) error {
	if (c.ICCID == "") == (c.Device == "") {
		return usage("give a SIM's ICCID, or --device IMEI")
	}
	name := c.Name
	if name == "none" {
		name = ""
	}
	return g.with(ctx, func(e *env) error {
		var a api.Assignment
		var err error
		if c.Device != "" {
			a, err = e.AssignDeviceWallet(ctx, c.Device, name, actor())
		} else {
			a, err = e.AssignWallet(ctx, c.ICCID, name, actor())
		}
		if err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, a)
		}
		what := "this SIM"
		if a.DeviceID != 0 {
			what = "this device with all its SIMs"
		}
		if a.Wallet == "" {
			fmt.Fprintf(g.Out, "No wallet pays for %s any more.\n", what)
		} else {
			fmt.Fprintf(g.Out, "Wallet %s pays for %s.\n", a.Wallet, what)
		}
		return nil
	})
}

type walletLimitCmd struct {
	Name   string `arg:"" help:"The wallet."`
	Amount string `arg:"" help:"With its currency, such as 50.00EUR; 0EUR for no credit."`
}

// Run sets a credit limit (M1).
func (c *walletLimitCmd) Run(ctx context.Context, g *Globals) error {
	m, err := ledger.Parse(c.Amount)
	if err != nil {
		return err
	}
	return g.with(ctx, func(e *env) error {
		w, err := e.SetCreditLimit(ctx, c.Name, m, actor())
		if err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, w)
		}
		fmt.Fprintf(g.Out, "Wallet %s may go %s below zero; %s can be spent.\n", w.Name, ledger.Format(m), minor(w.AvailableMinor, w.Currency))
		return nil
	})
}
