package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/secret"
	"github.com/simwarden/simwarden/internal/store"
)

// account is what the gateway keeps of one carrier account.
type account struct {
	gateway   *Gateway
	id        simwarden.AccountID
	driver    carrier.Driver
	info      carrier.Info
	driverErr error   // no such driver is built in
	declared  *places // among the calls at a time that the driver declares; nil: any number
	breaker   *breaker
	told      time.Time // when the database last heard of its open breaker; held by whoever reads the settings

	row     atomic.Pointer[store.Account]
	stopped atomic.Pointer[stopped]
	stops   atomic.Uint64 // counts stops, so that an older reading does not undo one
	// tokenRefusedAt is when a change was last refused for its token, in Unix nanoseconds; 0 once another
	// was taken.
	tokenRefusedAt atomic.Int64

	mu     sync.Mutex // held while opening
	opened atomic.Pointer[opened]
	failed openFailure // guarded by mu
}

// openFailure is why the account could not be opened, so that a schedule full of its SIMs does
// not ask the database and the keyring for each.
type openFailure struct {
	err     error
	until   time.Time
	updated time.Time // of the row
}

// stopped says why an account is not called (G8).
type stopped struct {
	because string
	// unsaved: the database does not know yet.
	unsaved bool
}

// setupError is what is wrong with an account's own settings or credentials, in words for people, who know
// which account they asked for.
type setupError struct{ error }

// opened is an account's open connection and what it was opened with.
type opened struct {
	conn     carrier.Conn
	driver   string
	baseURL  string
	settings map[string]string
	values   map[string]string // the credentials
	sealed   []byte
	hosts    map[string]bool // allowed, with their port where it is not the scheme's
	redactor *secret.Redactor
	checked  time.Time // the row's UpdatedAt that it was last compared with
}

func newAccount(g *Gateway, row store.Account) *account {
	a := &account{gateway: g, id: row.ID, breaker: newBreaker(g.opts.Breaker, row.Name, g.log)}
	a.breaker.now = g.clock.Now
	a.driver, a.driverErr = carrier.Lookup(row.Driver)
	if a.driverErr == nil {
		a.info = a.driver.Info()
	}
	if n := a.info.MaxConcurrent; n > 0 {
		a.declared = g.placer.of(accountPlaces(row.ID))
		a.declared.cap(n)
	}
	a.row.Store(&row)
	return a
}

// set takes the account's row as it was read when stops had that count.
func (a *account) set(row store.Account, stops uint64) {
	a.row.Store(&row)
	now := a.stopped.Load()
	switch {
	case !row.StoppedAt.IsZero():
		a.stopped.CompareAndSwap(now, &stopped{because: row.StoppedBecause})
	case now != nil && !now.unsaved && a.stops.Load() == stops:
		if a.stopped.CompareAndSwap(now, nil) {
			a.tokenRefusedAt.Store(0)
			a.breaker.reset()
		}
	}
}

// drop forgets the connection. The next call looks at the database for itself.
func (a *account) drop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.opened.Store(nil)
	a.failed = openFailure{}
	a.tokenRefusedAt.Store(0)
	a.breaker.reset()
}

// open gives the open connection, opening or opening anew where something that it rests on has
// changed: a login that is still good is kept through all other changes.
func (a *account) open(ctx context.Context) (*opened, error) {
	if o := a.opened.Load(); o != nil && o.checked.Equal(a.row.Load().UpdatedAt) {
		return o, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	old := a.opened.Load()
	if old != nil && old.checked.Equal(a.row.Load().UpdatedAt) {
		return old, nil
	}
	now := a.gateway.clock.Now()
	if f := a.failed; f.err != nil && now.Before(f.until) && f.updated.Equal(a.row.Load().UpdatedAt) {
		return nil, f.err
	}
	o, err := a.reopen(ctx, old)
	a.failed = openFailure{}
	if err != nil {
		if ctx.Err() == nil {
			a.failed = openFailure{err: err, until: now.Add(notReadyWait), updated: a.row.Load().UpdatedAt}
		}
		return nil, err
	}
	a.opened.Store(o)
	return o, nil
}

// reopen compares the open connection, nil for none, with the database and gives it or another;
// mu is held.
func (a *account) reopen(ctx context.Context, old *opened) (*opened, error) {
	stops := a.stops.Load() // before the query: a stop made meanwhile outlives it
	row, err := a.gateway.store.Account(ctx, a.id)
	if err != nil {
		return nil, err
	}
	sealed, err := a.gateway.store.AccountCredential(ctx, a.id)
	if err != nil {
		return nil, err
	}
	a.set(row, stops)
	if row.BadSettings {
		return nil, setupError{errors.New("its settings are not texts by name")}
	}
	same := old != nil && old.driver == row.Driver && old.baseURL == row.BaseURL && maps.Equal(old.settings, row.Settings)
	if same && bytes.Equal(old.sealed, sealed) {
		return old.keptFor(row, sealed), nil
	}
	values, err := a.credentials(sealed)
	if err != nil {
		return nil, err
	}
	if same && maps.Equal(old.values, values) {
		return old.keptFor(row, sealed), nil // sealed anew, perhaps under another key
	}
	o, err := a.connect(row, values)
	if err != nil {
		return nil, err
	}
	o.sealed = sealed
	return o, nil
}

func (o *opened) keptFor(row store.Account, sealed []byte) *opened {
	kept := *o
	kept.checked, kept.sealed = row.UpdatedAt, sealed
	return &kept
}

// credentials opens the sealed object of names and values.
func (a *account) credentials(sealed []byte) (map[string]string, error) {
	values := map[string]string{}
	if len(sealed) == 0 {
		return values, nil // the driver says what it misses
	}
	plain, err := a.gateway.opts.Keyring.Open("account", strconv.FormatInt(int64(a.id), 10), sealed)
	if err != nil {
		return nil, setupError{fmt.Errorf("its credentials: %w", err)}
	}
	if err := json.Unmarshal(plain, &values); err != nil {
		return nil, setupError{errors.New("its credentials are not an object of texts")} // json's words quote the text
	}
	return values, nil
}

// connect makes a connection; it sends nothing.
func (a *account) connect(row store.Account, values map[string]string) (*opened, error) {
	if a.driverErr != nil {
		return nil, a.driverErr
	}
	o := &opened{driver: row.Driver, baseURL: row.BaseURL, settings: maps.Clone(row.Settings), values: values,
		checked: row.UpdatedAt, hosts: map[string]bool{}}
	for _, host := range a.info.Hosts {
		o.hosts[strings.ToLower(host)] = true
	}
	for _, base := range []string{a.info.DefaultBaseURL, row.BaseURL} {
		if base == "" {
			continue
		}
		u, err := url.Parse(base)
		if err != nil || u.Host == "" {
			return nil, setupError{errors.New("its base URL is not of the form https://host/path")} // url's words quote it
		}
		if err := a.gateway.allowed(u); err != nil {
			return nil, setupError{err}
		}
		o.hosts[strings.ToLower(u.Host)] = true
	}
	secrets := make([]secret.Secret, 0, len(values))
	for _, v := range values {
		secrets = append(secrets, secret.New(v))
	}
	o.redactor = secret.NewRedactor(secrets...)
	conn, err := a.driver.Open(carrier.Config{
		BaseURL: row.BaseURL, Credentials: maps.Clone(values), Settings: maps.Clone(row.Settings),
		HTTP: &doer{gateway: a.gateway, account: a.id}, Now: a.gateway.clock.Now,
		Tokens: &tokenStore{gateway: a.gateway, id: a.id, scope: tokenScope(row, values)},
	})
	if err != nil {
		return nil, setupError{errors.New(o.redactor.Text(err.Error()))}
	}
	o.conn = conn
	return o, nil
}

// errPlainHTTP says that credentials would go over the wire as they are (B16).
var errPlainHTTP = errors.New("the carrier must be reached by https; http is for a lab on this machine, with --allow-lab")

// allowed judges a URL's scheme: https, or http to this machine where that is allowed.
func (g *Gateway) allowed(u *url.URL) error {
	if u.Scheme == "https" || u.Scheme == "http" && g.opts.AllowLoopback && loopback(u.Hostname()) {
		return nil
	}
	return errPlainHTTP
}

func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// allows says whether a request may go to the URL's host: the account's base, or a host that the
// driver declares. A link in an answer leads nowhere else (B16).
func (o *opened) allows(u *url.URL) bool {
	host := strings.ToLower(u.Host)
	if o.hosts[host] {
		return true
	}
	bare, port, err := net.SplitHostPort(host)
	return err == nil && port == "443" && u.Scheme == "https" && o.hosts[bare]
}
