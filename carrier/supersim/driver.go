// Package supersim speaks the Super SIM API (version 1) on Twilio's host: a change is done at
// once or scheduled, lists are followed by page tokens, usage counts bytes between instants and
// many SIMs a page. Importing it registers the driver "supersim".
package supersim

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
)

func init() { carrier.Register("supersim", Driver{}) }

const (
	baseURL = "https://supersim.twilio.com"
	// listPageSize is the most that the definition allows.
	listPageSize = 1000
	// usagePageSize is the most that both hosts of this API take.
	usagePageSize = 249
)

// Driver is Super SIM. Its zero value is ready.
type Driver struct{}

// Info declares what Super SIM is like. It publishes no rate limits, only that too many calls at
// a time are refused (20429).
func (Driver) Info() carrier.Info {
	return carrier.Info{
		Name:           "supersim",
		Title:          "Super SIM (Twilio)",
		DefaultBaseURL: baseURL,
		Hosts:          []string{"supersim.twilio.com"},
		Credentials:    credentialFields(),
		// A SIM that is ready may use a small allowance, and then becomes active by itself.
		TrafficStates: []simwarden.State{simwarden.StateActive, simwarden.StateTestReady},
		Usage: carrier.UsageInfo{
			UnitBytes: 1,
			// The API counts between any two instants; the driver asks for the calendar month.
			Period: simwarden.ResetCalendarMonth,
			Zone:   "UTC",
			Lag:    15 * time.Minute,
		},
		// A scheduled change shows as pending at once; this is room for reads from a replica.
		SettleTime: 10 * time.Second,
		PageSize:   listPageSize,
		Reads:      []simwarden.CheckKind{simwarden.CheckState, simwarden.CheckUsage},
		Rules:      rules(),
	}
}

// Open makes a connection for one account. The error names what is missing.
func (Driver) Open(cfg carrier.Config) (carrier.Conn, error) {
	base := cfg.BaseURL
	if base == "" {
		base = baseURL
	}
	if u, err := url.Parse(base); err != nil || u.Host == "" || u.RawQuery != "" || u.User != nil {
		return nil, fmt.Errorf("open supersim account: the base URL is not of the form https://host/path")
	}
	auth, err := newBasic(cfg.Credentials)
	if err != nil {
		return nil, fmt.Errorf("open supersim account: %w", err)
	}
	// The hosts' own pages name the base with its version, the definition without it.
	base = strings.TrimSuffix(strings.TrimSuffix(base, "/"), "/v1")
	return &conn{cfg: cfg, base: base + "/v1", auth: auth}, nil
}
