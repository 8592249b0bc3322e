package gateway

import (
	"context"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
)

// Capability names what only some drivers can.
type Capability string

// The capabilities, each with the interface of package carrier that a connection then has.
const (
	CanList         Capability = "list"          // carrier.Lister
	CanListChanged  Capability = "list_changed"  // carrier.ChangedLister
	CanListUsage    Capability = "list_usage"    // carrier.UsageLister
	CanReadUsage    Capability = "read_usage"    // carrier.UsageReader
	CanReadRealName Capability = "read_realname" // carrier.RealNameReader
	CanReadBatch    Capability = "read_batch"    // carrier.BatchReader
	CanResolve      Capability = "resolve"       // carrier.Resolver
	CanSetLimit     Capability = "set_limit"     // carrier.LimitSetter
	CanFollowJob    Capability = "follow_job"    // carrier.JobFollower
	CanCallback     Capability = "callback"      // carrier.CallbackReader
)

// Can says whether an account's driver has the capability. The error is one that Do would give
// for an account that cannot be opened.
func (g *Gateway) Can(ctx context.Context, id simwarden.AccountID, what Capability) (bool, error) {
	a, err := g.account(ctx, id)
	if err != nil {
		return false, notReady(id, "", err)
	}
	o, err := a.open(ctx)
	if err != nil {
		return false, notReady(id, "", err)
	}
	return can(o.conn, what), nil
}

// has says whether a connection is of an interface.
func has[T any](conn carrier.Conn) bool {
	_, ok := conn.(T)
	return ok
}

// abilities say how a connection shows that it has a capability.
var abilities = map[Capability]func(carrier.Conn) bool{
	CanList:         has[carrier.Lister],
	CanListChanged:  has[carrier.ChangedLister],
	CanListUsage:    has[carrier.UsageLister],
	CanReadUsage:    has[carrier.UsageReader],
	CanReadRealName: has[carrier.RealNameReader],
	CanReadBatch:    has[carrier.BatchReader],
	CanResolve:      has[carrier.Resolver],
	CanSetLimit:     has[carrier.LimitSetter],
	CanFollowJob:    has[carrier.JobFollower],
	CanCallback:     has[carrier.CallbackReader],
}

func can(conn carrier.Conn, what Capability) bool {
	shows := abilities[what]
	return shows != nil && shows(conn)
}
