package dial

import "net/netip"

// block is a range that nobody on the public internet answers from, and what people call it.
type block struct {
	prefix netip.Prefix
	name   string
}

// blocks are the special-purpose ranges that are refused.
//
// Source: IANA IPv4 and IPv6 Special-Purpose Address Registries (RFC 6890 and its updates), and
// the multicast registries (RFC 5771, RFC 4291 section 2.7).
var blocks = []block{
	{netip.MustParsePrefix("0.0.0.0/8"), "unspecified, this network"},
	{netip.MustParsePrefix("10.0.0.0/8"), "private"},
	{netip.MustParsePrefix("100.64.0.0/10"), "carrier-grade NAT"},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback"},
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local, cloud metadata"},
	{netip.MustParsePrefix("172.16.0.0/12"), "private"},
	{netip.MustParsePrefix("192.0.0.0/24"), "protocol assignments"},
	{netip.MustParsePrefix("192.0.2.0/24"), "documentation"},
	{netip.MustParsePrefix("192.31.196.0/24"), "AS112"},
	{netip.MustParsePrefix("192.52.193.0/24"), "AMT"},
	{netip.MustParsePrefix("192.88.99.0/24"), "6to4 relay"},
	{netip.MustParsePrefix("192.168.0.0/16"), "private"},
	{netip.MustParsePrefix("192.175.48.0/24"), "AS112"},
	{netip.MustParsePrefix("198.18.0.0/15"), "benchmarking"},
	{netip.MustParsePrefix("198.51.100.0/24"), "documentation"},
	{netip.MustParsePrefix("203.0.113.0/24"), "documentation"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved, broadcast"},

	{netip.MustParsePrefix("::/128"), "unspecified"},
	{netip.MustParsePrefix("::1/128"), "loopback"},
	{netip.MustParsePrefix("64:ff9b:1::/48"), "local-use NAT64"},
	{netip.MustParsePrefix("100::/64"), "discard-only"},
	{netip.MustParsePrefix("100:0:0:1::/64"), "dummy"},
	{netip.MustParsePrefix("2001::/32"), "Teredo"},
	{netip.MustParsePrefix("2001:2::/48"), "benchmarking"},
	{netip.MustParsePrefix("2001:db8::/32"), "documentation"},
	{netip.MustParsePrefix("2001:10::/28"), "ORCHID"},
	{netip.MustParsePrefix("2001:20::/28"), "ORCHIDv2"},
	{netip.MustParsePrefix("3fff::/20"), "documentation"},
	{netip.MustParsePrefix("5f00::/16"), "segment routing"},
	{netip.MustParsePrefix("fc00::/7"), "unique local"},
	{netip.MustParsePrefix("fe80::/10"), "link-local"},
	{netip.MustParsePrefix("fec0::/10"), "site-local"},
	{netip.MustParsePrefix("ff00::/8"), "multicast"},
}

var (
	compatible = netip.MustParsePrefix("::/96")           // RFC 4291 2.5.5.1, deprecated
	translated = netip.MustParsePrefix("::ffff:0:0:0/96") // RFC 2765 SIIT, "IPv4-translated"
	nat64      = netip.MustParsePrefix("64:ff9b::/96")    // RFC 6052
	sixToFour  = netip.MustParsePrefix("2002::/16")       // RFC 3056
)

// embedded is the IPv4 address that an IPv6 address leads to: its last four bytes in the mapped,
// compatible, translated and NAT64 forms, bytes 2 to 5 in 6to4.
func embedded(ip netip.Addr) (netip.Addr, bool) {
	if ip.Is4In6() {
		return ip.Unmap(), true
	}
	if !ip.Is6() {
		return netip.Addr{}, false
	}
	bytes := ip.As16()
	switch {
	case ip.IsUnspecified(), ip.IsLoopback(): // ::/96 holds both, and they have rows of their own
		return netip.Addr{}, false
	case nat64.Contains(ip), compatible.Contains(ip), translated.Contains(ip):
		return netip.AddrFrom4([4]byte(bytes[12:16])), true
	case sixToFour.Contains(ip):
		return netip.AddrFrom4([4]byte(bytes[2:6])), true
	}
	return netip.Addr{}, false
}

// Forbidden says why an address is not on the public internet, in a few words, or "" when it is.
// An IPv6 address that carries an IPv4 address is judged by that address too, so that no other
// spelling of 127.0.0.1 passes. A zone (fe80::1%eth0) is looked through.
func Forbidden(ip netip.Addr) string {
	if !ip.IsValid() {
		return "not an address"
	}
	ip = ip.WithZone("")
	if inner, ok := embedded(ip); ok {
		if why := Forbidden(inner); why != "" {
			return why + " inside IPv6"
		}
		if ip.Is4In6() {
			return ""
		}
	}
	for _, b := range blocks {
		if b.prefix.Contains(ip) {
			return b.name
		}
	}
	return ""
}
