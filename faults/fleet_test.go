package faults_test

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/ledger"
	"github.com/simwarden/simwarden/internal/plans"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/lab"
)

const (
	imei   = "490154203237518"
	fitted = 3  // SIMs in the one device
	brake  = 10 // automatic suspends of an account in ten minutes
	price  = 100
)

// furnish puts SIMs into a device, gives all SIMs a wallet that pays for them, and lets accounts have a
// brake that so small a fleet can come to.
func (w *world) furnish() {
	w.t.Helper()
	w.must(w.tx(func(ctx context.Context, tx *store.Tx) error {
		for _, a := range w.accounts {
			if err := tx.SetBrake(ctx, a.ID, 5, brake, 10*time.Minute); err != nil {
				return err
			}
			// A schedule's faults have SIMs read wrongly more often than a day has changes for (F30), and it
			// ends within the hour: what would wait until tomorrow would be looked at by nobody.
			if err := tx.SetFlapLimits(ctx, a.ID, 0, 0); err != nil {
				return err
			}
		}
		id, err := simwarden.ParseIMEI(imei)
		if err != nil {
			return err
		}
		d, err := tx.AddDevice(ctx, id, "pump")
		if err != nil {
			return err
		}
		for i := range w.sims[:fitted] {
			w.sims[i].device = d.ID
			if _, err := reconcile.BindSIM(ctx, tx, reconcile.Binding{SIMID: w.sims[i].id, DeviceID: d.ID, Actor: anna, Reason: "fitted"}); err != nil {
				return err
			}
		}
		return nil
	}))
	w.must(w.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		euro := func(n int64) simwarden.Money { return simwarden.Money{AmountMinor: n, Currency: "EUR"} }
		w.paid, err = tx.AddPlan(ctx, simwarden.Plan{Code: "paid", Name: "test", Kind: simwarden.PlanMain, AllowanceBytes: allowanceBytes,
			ValidityUnit: simwarden.ValiditySeconds, ValidityCount: 30, Reset: simwarden.ResetNone, Zone: "UTC", PriceMinor: price, Currency: "EUR"})
		if err != nil {
			return err
		}
		wallet, err := ledger.AddWallet(ctx, tx, "anna", euro(5*price))
		if err != nil {
			return err
		}
		w.wallet = wallet.ID
		done := map[store.Asset]bool{}
		for _, c := range w.sims {
			if a := c.asset(); !done[a] {
				done[a] = true
				if err := ledger.Assign(ctx, tx, a, w.wallet, anna); err != nil {
					return err
				}
			}
		}
		_, err = ledger.TopUp(ctx, tx, w.wallet, euro(20*price), ledger.By{Actor: anna})
		return err
	}))
}

// asset is what plans of the SIM are bought for.
func (c card) asset() store.Asset {
	if c.device != 0 {
		return store.Asset{DeviceID: c.device}
	}
	return store.Asset{SIMID: c.id}
}

// moreDeeds are about devices, money, the carrier's portal and usage.
var moreDeeds = []deed{
	{"pays for a plan that is bought again and again for", func(w *world, c card) error { return w.pay(c) }},
	{"pays into the wallet of", func(w *world, _ card) error { return w.payIn() }},
	{"uses up all data of the account of", func(w *world, c card) error { return w.useUp(c) }},
	{"has the carrier end a SIM of the device, or else", func(w *world, c card) error { return w.end(c) }},
	{"stops the polling of the device, or takes it up again, not of", func(w *world, _ card) error { return w.flipDevice() }},
}

// pay buys a plan that the wallet pays for, now and at its end.
func (w *world) pay(c card) error {
	err := w.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := plans.Subscribe(ctx, tx, plans.Order{Asset: c.asset(), Plan: w.paid, By: anna, Pay: true, Renew: true})
		return err
	})
	if errors.Is(err, ledger.ErrInsufficientFunds) {
		return nil
	}
	return err
}

func (w *world) payIn() error {
	return w.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := ledger.TopUp(ctx, tx, w.wallet, simwarden.Money{AmountMinor: price, Currency: "EUR"}, ledger.By{Actor: anna})
		return err
	})
}

// useUp has every SIM of an account use what its plan allows.
func (w *world) useUp(c card) error {
	for _, other := range w.sims {
		if other.carrier == c.carrier {
			if err := other.carrier.AddUsage(other.iccid, allowanceBytes); err != nil {
				return err
			}
		}
	}
	return nil
}

// end ends a SIM at the carrier for good: one of the device's first.
func (w *world) end(c card) error {
	if i := slices.IndexFunc(w.sims, func(c card) bool {
		truth, ok := c.carrier.SIM(c.iccid)
		return c.device != 0 && ok && truth.State == simwarden.StateActive
	}); i >= 0 {
		c = w.sims[i]
	}
	err := c.carrier.SetState(c.iccid, simwarden.StateTerminated)
	if errors.Is(err, lab.ErrState) { // this carrier has no such word
		return nil
	}
	return err
}

func (w *world) flipDevice() error {
	id := w.sims[0].device
	return w.tx(func(ctx context.Context, tx *store.Tx) error {
		paused := w.random.IntN(2) == 0
		if paused {
			_, err := reconcile.PauseDevice(ctx, tx, id, anna, "test")
			return err
		}
		_, err := reconcile.ResumeDevice(ctx, tx, id, anna, "test")
		return err
	})
}
