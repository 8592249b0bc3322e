package app

import (
	"context"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/gateway"
	"github.com/simwarden/simwarden/internal/poller"
	"github.com/simwarden/simwarden/internal/store"
)

// Asker asks carriers for a person who waits for the answer. It is used from many goroutines.
type Asker struct {
	store   *store.Store
	gateway *gateway.Gateway
}

// Asker asks through the node's own gateway.
func (a *App) Asker() *Asker { return &Asker{a.cfg.Store, a.Gateway} }

// NewAsker makes one with a gateway of its own, for a program that runs no node. Close writes what it
// counted.
func NewAsker(ctx context.Context, cfg Config) (*Asker, error) {
	g, err := gateway.New(gateway.Options{Store: cfg.Store, Clock: cfg.Clock, Keyring: cfg.Keyring, Log: cfg.Log,
		AllowLoopback: cfg.AllowLoopback, Holder: cfg.Holder, DialContext: cfg.DialContext})
	if err != nil {
		return nil, err
	}
	return &Asker{cfg.Store, g}, cfg.Store.SyncRules(ctx)
}

// Probe makes the cheapest authenticated call there is to an account's carrier. The error is a
// *carrier.Error where the carrier, or the way to it, said no.
func (a *Asker) Probe(ctx context.Context, id simwarden.AccountID) error {
	return a.gateway.Do(ctx, id, gateway.Call{Operation: simwarden.OpQueryState, Purpose: simwarden.PurposeManualRefresh},
		func(ctx context.Context, conn carrier.Conn) error { return conn.Probe(ctx) })
}

// Refresh reads one SIM now; see poller.Refresh.
func (a *Asker) Refresh(ctx context.Context, account simwarden.AccountID, id simwarden.SIMID) ([]poller.Refreshed, error) {
	return poller.Refresh(ctx, a.store, a.gateway, account, id)
}

// Close writes the counts of what was asked.
func (a *Asker) Close(ctx context.Context) error { return a.gateway.Flush(ctx) }
