package app

import (
	"context"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/gateway"
)

// Probe makes the cheapest authenticated call there is to an account's carrier, through a gateway
// of its own, for a person who wants to know whether it works. The error is a *carrier.Error where
// the carrier, or the way to it, said no.
func Probe(ctx context.Context, cfg Config, id simwarden.AccountID) error {
	gw, err := gateway.New(gateway.Options{Store: cfg.Store, Clock: cfg.Clock, Keyring: cfg.Keyring, Log: cfg.Log,
		AllowLoopback: cfg.AllowLoopback, Holder: cfg.Holder})
	if err != nil {
		return err
	}
	if err := cfg.Store.SyncRules(ctx); err != nil {
		return err
	}
	err = gw.Do(ctx, id, gateway.Call{Operation: simwarden.OpQueryState, Purpose: simwarden.PurposeManualRefresh},
		func(ctx context.Context, conn carrier.Conn) error { return conn.Probe(ctx) })
	if flushErr := gw.Flush(ctx); err == nil {
		err = flushErr
	}
	return err
}
