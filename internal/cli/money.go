package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/api"
	"github.com/simwarden/simwarden/internal/ledger"
	"github.com/simwarden/simwarden/internal/store"
)

// isAboutMoney says whether an error is one of an amount, currency or name that was typed.
func isAboutMoney(err error) bool {
	for _, typed := range []error{ledger.ErrAmount, ledger.ErrCurrency, ledger.ErrBadRequest, ledger.ErrStatement, ledger.ErrKeyReused, store.ErrWalletExists} {
		if errors.Is(err, typed) {
			return true
		}
	}
	return false
}

// keyFlag makes a command happen once.
type keyFlag struct {
	Key string `help:"Makes it happen once: with the same key again, nothing more is done." placeholder:"KEY"`
}

// purchaseFlags say how a plan is bought.
type purchaseFlags struct {
	Pay   bool `help:"Take the plan's price from the wallet that pays for the SIM or device."`
	Renew bool `help:"Buy a main plan again at its end, from the wallet."`
	keyFlag
}

func (f purchaseFlags) purchase(plan string) api.Purchase {
	return api.Purchase{Plan: plan, Pay: f.Pay, Renew: f.Renew, Key: f.Key}
}

// refundFlags say what is given back.
type refundFlags struct {
	Amount    string `help:"What the buyer gets back, such as 4.50EUR; default: all that is left of what was paid." placeholder:"AMOUNT" xor:"money"`
	KeepMoney bool   `help:"Give nothing back." xor:"money"`
	keyFlag
}

func (f refundFlags) takeback(id simwarden.SubscriptionID, reason string) (api.Takeback, error) {
	t := api.Takeback{SubscriptionID: id, KeepMoney: f.KeepMoney, Reason: reason, Key: f.Key}
	if f.Amount != "" {
		m, err := ledger.Parse(f.Amount)
		if err != nil {
			return t, err
		}
		t.Amount = &m
	}
	return t, nil
}

func (g *Globals) takenBack(e *env, b api.TakenBack) error {
	if g.JSON {
		return printJSON(g.Out, b)
	}
	if err := g.subscription(e, b.Subscription); err != nil {
		return err
	}
	if b.Refund != nil {
		fmt.Fprintf(g.Out, "%s went back to its wallet.\n", ledger.Format(b.Refund.Money))
	}
	return nil
}

// priceText is what a plan costs.
func priceText(p simwarden.Plan) string {
	if p.PriceMinor == 0 {
		return ""
	}
	return ledger.Format(p.Price())
}

type renewalCmd struct {
	ID     int64  `arg:"" help:"The subscription's number; see: simwarden explain ICCID."`
	Switch string `arg:"" enum:"on,off" help:"on or off."`
	As     string `help:"The plan that it is bought again as; default: itself." placeholder:"PLAN"`
}

// Run says whether a subscription is bought again (M2).
func (c *renewalCmd) Run(ctx context.Context, g *Globals) error {
	return g.with(ctx, func(e *env) error {
		b, err := e.SetRenewal(ctx, simwarden.SubscriptionID(c.ID), c.Switch == "on", c.As, actor())
		if err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, b)
		}
		if b.Renew {
			fmt.Fprintf(g.Out, "Subscription %d (%s) is bought again at its end.\n", b.ID, b.PlanCode)
		} else {
			fmt.Fprintf(g.Out, "Subscription %d (%s) is not bought again.\n", b.ID, b.PlanCode)
		}
		return nil
	})
}
