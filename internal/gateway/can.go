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

func can(conn carrier.Conn, what Capability) bool {
	var ok bool
	switch what {
	case CanList:
		_, ok = conn.(carrier.Lister)
	case CanListChanged:
		_, ok = conn.(carrier.ChangedLister)
	case CanListUsage:
		_, ok = conn.(carrier.UsageLister)
	case CanReadUsage:
		_, ok = conn.(carrier.UsageReader)
	case CanReadRealName:
		_, ok = conn.(carrier.RealNameReader)
	case CanReadBatch:
		_, ok = conn.(carrier.BatchReader)
	case CanResolve:
		_, ok = conn.(carrier.Resolver)
	case CanSetLimit:
		_, ok = conn.(carrier.LimitSetter)
	case CanFollowJob:
		_, ok = conn.(carrier.JobFollower)
	case CanCallback:
		_, ok = conn.(carrier.CallbackReader)
	}
	return ok
}
