// Package dial connects to carriers and to webhook receivers, and refuses every address that is
// not on the public internet, so that nobody can point us at our own machine, our neighbours or
// the cloud's metadata service (B16, F49).
//
// The check is made on the address that is about to be connected to, after resolution, for each
// address that is tried: neither a name that changes its answer, a redirect nor an odd spelling of
// an address gets around it.
package dial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// Policy says what a dialer may reach. The zero value reaches the public internet alone.
type Policy struct {
	// AllowLoopback also allows 127.0.0.0/8 and ::1: for the demo, the tests and a lab on this
	// machine.
	AllowLoopback bool
	// Allow are further ranges to reach although they are not public: a carrier's private line,
	// an APN's gateway. Name as little as possible. An IPv4 range here does not open the same
	// addresses in their NAT64 or 6to4 forms.
	Allow []netip.Prefix
	// Timeout bounds one dial with its resolution; DefaultTimeout when zero.
	Timeout time.Duration
	// Resolver replaces the machine's resolver in tests of DNS; nil is net.DefaultResolver.
	Resolver *net.Resolver
}

// DefaultTimeout is how long a dial may take when the policy does not say.
const DefaultTimeout = 10 * time.Second

// Dialer connects as its policy allows. It may be used from any number of goroutines; its
// DialContext fits http.Transport. Leave that transport's Proxy nil: a proxy from the environment
// would connect in our place, without the check.
type Dialer struct {
	policy Policy
	dialer net.Dialer
}

// New makes a dialer of the policy.
func New(policy Policy) *Dialer {
	d := &Dialer{policy: policy}
	if d.policy.Timeout <= 0 {
		d.policy.Timeout = DefaultTimeout
	}
	d.dialer = net.Dialer{
		Timeout:  d.policy.Timeout,
		Resolver: policy.Resolver,
		Control:  d.control,
	}
	return d
}

// RefusedError says that an address is not to be connected to. Nothing was sent.
type RefusedError struct {
	// Address is the numeric host and port that the dial came to.
	Address string
	// Why is the kind of address, such as "private" or "loopback".
	Why string
}

// Error says what was refused and what to do about it.
func (e *RefusedError) Error() string {
	if e.Why == "loopback" {
		return fmt.Sprintf("address %s is refused (%s): use a public address, or start with --allow-lab to use a lab on this machine",
			e.Address, e.Why)
	}
	return fmt.Sprintf("address %s is refused (%s): use a public address, or name the range in the settings as one to allow",
		e.Address, e.Why)
}

// DialContext connects to a host and port over "tcp", "tcp4" or "tcp6"; another network is an
// error. Names are resolved here, and each resolved address is judged before it is connected to.
// A refused address gives an error that wraps a *RefusedError, unless another address of the same
// name was tried before it and failed in its own way: net tells the first failure. Everything
// else is net's own error, wrapped. Whatever the error, nothing was sent.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	switch network {
	case "tcp", "tcp4", "tcp6":
	default:
		return nil, fmt.Errorf("dial %s: only tcp is allowed", network)
	}
	conn, err := d.dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	// Belt and braces: what we are connected to is what was judged, whatever the platform did.
	if refused := d.Check(conn.RemoteAddr().String()); refused != nil {
		return nil, errors.Join(refused, conn.Close())
	}
	return conn, nil
}

// Check judges a numeric "host:port" without connecting, such as an address given in a form. It
// returns a *RefusedError or nil.
func (d *Dialer) Check(address string) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return &RefusedError{Address: address, Why: "not an address and port"}
	}
	ip := target.Addr().WithZone("")
	plain := ip.Unmap()
	for _, prefix := range d.policy.Allow {
		if prefix.Contains(plain) {
			return nil
		}
	}
	if d.policy.AllowLoopback && plain.IsLoopback() {
		return nil
	}
	if why := Forbidden(ip); why != "" {
		return &RefusedError{Address: address, Why: why}
	}
	return nil
}

// control is called by net for each address, between socket() and connect().
func (d *Dialer) control(network, address string, _ syscall.RawConn) error {
	if network != "tcp4" && network != "tcp6" {
		return &RefusedError{Address: address, Why: network + " is not tcp"}
	}
	return d.Check(address)
}
