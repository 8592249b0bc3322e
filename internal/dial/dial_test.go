package dial_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/simwarden/simwarden/internal/dial"
)

func TestForbidden(t *testing.T) {
	for _, row := range []struct{ sentence, ip, why string }{
		{"loopback", "127.0.0.1", "loopback"},
		{"the end of loopback", "127.255.255.255", "loopback"},
		{"this network", "0.0.0.0", "unspecified"},
		{"0.0.0.0/8 reaches the own host on Linux", "0.1.2.3", "unspecified"},
		{"RFC 1918, 10", "10.0.0.1", "private"},
		{"RFC 1918, 172.16", "172.16.0.1", "private"},
		{"RFC 1918, 172.31", "172.31.255.255", "private"},
		{"RFC 1918, 192.168", "192.168.1.1", "private"},
		{"cloud metadata", "169.254.169.254", "metadata"},
		{"carrier-grade NAT, where a cloud's metadata hides too", "100.100.100.200", "carrier-grade"},
		{"the end of carrier-grade NAT", "100.127.255.255", "carrier-grade"},
		{"protocol assignments", "192.0.0.192", "protocol"},
		{"benchmarking", "198.19.0.1", "benchmarking"},
		{"documentation 1", "192.0.2.1", "documentation"},
		{"documentation 2", "198.51.100.1", "documentation"},
		{"documentation 3", "203.0.113.1", "documentation"},
		{"multicast", "224.0.0.1", "multicast"},
		{"reserved", "240.0.0.1", "reserved"},
		{"broadcast", "255.255.255.255", "broadcast"},
		{"IPv6 loopback", "::1", "loopback"},
		{"IPv6 unspecified", "::", "unspecified"},
		{"unique local", "fd00:ec2::254", "unique local"},
		{"link-local with a zone", "fe80::1%eth0", "link-local"},
		{"IPv6 multicast", "ff02::1", "multicast"},
		{"IPv6 documentation", "2001:db8::1", "documentation"},
		{"the newer IPv6 documentation", "3fff::1", "documentation"},
		{"Teredo hides IPv4 addresses", "2001:0:1::1", "Teredo"},
		{"IPv4-mapped loopback", "::ffff:127.0.0.1", "loopback inside IPv6"},
		{"IPv4-mapped metadata", "::ffff:169.254.169.254", "metadata inside IPv6"},
		{"IPv4-compatible private", "::10.0.0.1", "private inside IPv6"},
		{"IPv4-translated private", "::ffff:0:10.0.0.1", "private inside IPv6"},
		{"NAT64 of loopback", "64:ff9b::7f00:1", "loopback inside IPv6"},
		{"local-use NAT64", "64:ff9b:1::1", "local-use NAT64"},
		{"6to4 of a private address", "2002:c0a8:101::1", "private inside IPv6"},
		{"a carrier", "8.8.8.8", ""},
		{"just below carrier-grade NAT", "100.63.255.255", ""},
		{"just above carrier-grade NAT", "100.128.0.0", ""},
		{"just below RFC 1918's 172", "172.15.255.255", ""},
		{"just above RFC 1918's 172", "172.32.0.0", ""},
		{"just below multicast", "223.255.255.255", ""},
		{"public IPv6", "2606:4700:4700::1111", ""},
		{"public IPv4 mapped", "::ffff:8.8.8.8", ""},
		{"NAT64 of a public address, as a network without IPv4 has it", "64:ff9b::808:808", ""},
	} {
		t.Run(row.sentence, func(t *testing.T) {
			why := dial.Forbidden(netip.MustParseAddr(row.ip))
			if row.why == "" && why != "" || row.why != "" && !strings.Contains(why, row.why) {
				t.Errorf("F49: %s is %q, want %q", row.ip, why, row.why)
			}
		})
	}
	if dial.Forbidden(netip.Addr{}) == "" {
		t.Error("F49: no address at all was let pass")
	}
}

func TestPolicy(t *testing.T) {
	lab := dial.Policy{AllowLoopback: true}
	line := dial.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("10.20.0.0/16")}}
	for _, row := range []struct {
		sentence string
		policy   dial.Policy
		address  string
		refused  bool
	}{
		{"nothing private without leave", dial.Policy{}, "10.20.0.1:443", true},
		{"no loopback without leave", dial.Policy{}, "127.0.0.1:443", true},
		{"a public address", dial.Policy{}, "8.8.8.8:443", false},
		{"a public IPv6 address", dial.Policy{}, "[2606:4700:4700::1111]:443", false},
		{"the lab on loopback", lab, "127.0.0.1:8080", false},
		{"the lab on IPv6 loopback", lab, "[::1]:8080", false},
		{"the lab on mapped loopback", lab, "[::ffff:127.0.0.1]:8080", false},
		{"leave for loopback is none for private addresses", lab, "10.20.0.1:80", true},
		{"leave for loopback is none for metadata", lab, "169.254.169.254:80", true},
		{"leave for loopback is none for 0.0.0.0, which is the own host too", lab, "0.0.0.0:80", true},
		{"a carrier's private line", line, "10.20.0.1:443", false},
		{"its neighbour", line, "10.21.0.1:443", true},
		{"the line in a NAT64 form", line, "[64:ff9b::a14:1]:443", true},
		{"a name is not judged, it is refused", dial.Policy{}, "localhost:80", true},
	} {
		t.Run(row.sentence, func(t *testing.T) {
			err := dial.New(row.policy).Check(row.address)
			var refused *dial.RefusedError
			if errors.As(err, &refused) != row.refused {
				t.Errorf("F49: Check(%q) = %v, want refused: %v", row.address, err, row.refused)
			}
			if refused != nil && refused.Address != row.address {
				t.Errorf("the error names %q, want %q", refused.Address, row.address)
			}
		})
	}
}

// server is a listener on loopback that counts the connections that reach it.
func server(t *testing.T) (address string, connections *atomic.Int64) {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	connections = &atomic.Int64{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = listener.Close(); <-done })
	return listener.Addr().String(), connections
}

func TestDialRefusesBeforeConnecting(t *testing.T) {
	address, connections := server(t)
	_, port, _ := net.SplitHostPort(address)
	dialer := dial.New(dial.Policy{})
	for _, spelling := range []string{
		"127.0.0.1", "localhost", "0.0.0.0", "::ffff:127.0.0.1", "",
		"2130706433", "0x7f000001", "017700000001", "127.1", // decimal, hex, octal and short: names, not addresses
	} {
		conn, err := dialer.DialContext(t.Context(), "tcp", net.JoinHostPort(spelling, port))
		if err == nil {
			t.Errorf("F49: %q was connected to", spelling)
			_ = conn.Close()
		}
	}
	if n := connections.Load(); n != 0 {
		t.Errorf("F49: %d connections reached the listener", n)
	}
	_, err := dialer.DialContext(t.Context(), "tcp", address)
	var refused *dial.RefusedError
	if !errors.As(err, &refused) || refused.Why != "loopback" || !strings.Contains(err.Error(), "--allow-lab") {
		t.Errorf("the error is %v, want a refusal that says what to do", err)
	}
	for _, network := range []string{"udp", "unix", "ip4:icmp"} {
		if _, err := dialer.DialContext(t.Context(), network, address); err == nil {
			t.Errorf("%s was dialled", network)
		}
	}
}

func TestDialReachesTheLab(t *testing.T) {
	address, _ := server(t)
	conn, err := dial.New(dial.Policy{AllowLoopback: true}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
}

func TestRedirectIsJudged(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://169.254.169.254/latest/meta-data", http.StatusFound)
	}))
	defer web.Close()
	transport := &http.Transport{DialContext: dial.New(dial.Policy{AllowLoopback: true}).DialContext}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, web.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err == nil {
		_ = answer.Body.Close()
	}
	var refused *dial.RefusedError
	if !errors.As(err, &refused) || refused.Address != "169.254.169.254:80" {
		t.Errorf("F49: the redirect ended with %v, want the metadata address refused", err)
	}
}

func TestNameThatChangesItsAnswer(t *testing.T) {
	address, connections := server(t)
	_, port, _ := net.SplitHostPort(address)
	answers := make(chan [4]byte, 2)
	dialer := dial.New(dial.Policy{
		Allow:    []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
		Resolver: stubResolver(answers),
		Timeout:  5 * time.Second,
	})
	answers <- [4]byte{127, 0, 0, 1}
	conn, err := dialer.DialContext(t.Context(), "tcp4", "carrier.example.:"+port)
	if err != nil {
		t.Fatalf("the first answer is allowed: %v", err)
	}
	_ = conn.Close()
	answers <- [4]byte{127, 0, 0, 2}
	_, err = dialer.DialContext(t.Context(), "tcp4", "carrier.example.:"+port)
	var refused *dial.RefusedError
	if !errors.As(err, &refused) || refused.Address != "127.0.0.2:"+port {
		t.Errorf("F49: after rebinding the dial ended with %v, want 127.0.0.2 refused", err)
	}
	if n := connections.Load(); n > 1 {
		t.Errorf("%d connections, want the first alone", n)
	}
}

// stubResolver answers each question for an A record with the next address of the channel. Its
// connection is a stream, so messages carry a length (RFC 1035 4.2.2).
func stubResolver(answers <-chan [4]byte) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer func() { _ = ours.Close() }()
			var size [2]byte
			if _, err := io.ReadFull(ours, size[:]); err != nil {
				return
			}
			question := make([]byte, binary.BigEndian.Uint16(size[:]))
			if _, err := io.ReadFull(ours, question); err != nil {
				return
			}
			end := 12 // the name's labels begin behind the header; type and class follow its zero
			for question[end] != 0 {
				end += int(question[end]) + 1
			}
			end += 5
			answer := append([]byte{question[0], question[1], 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0}, question[12:end]...)
			ip := <-answers
			answer = append(answer, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, ip[0], ip[1], ip[2], ip[3])
			_, _ = ours.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...))
		}()
		return theirs, nil
	}}
}

func FuzzCheckNeverPassesPrivate(f *testing.F) {
	for _, seed := range []string{"127.0.0.1:80", "[::1]:80", "[::ffff:10.0.0.1]:443", "[fe80::1%lo]:80", "8.8.8.8:53"} {
		f.Add(seed)
	}
	dialer := dial.New(dial.Policy{})
	f.Fuzz(func(t *testing.T, address string) {
		if dialer.Check(address) != nil {
			return
		}
		// The standard library's own words for the same thing are the oracle.
		ip := netip.MustParseAddrPort(address).Addr().Unmap()
		if ip.IsPrivate() || ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified() {
			t.Errorf("F49: %q was let pass", address)
		}
	})
}
