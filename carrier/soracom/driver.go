// Package soracom speaks Soracom Air's API (SIMs and statistics, version 20260604-092803):
// changes are made at once, lists come by a key in a header, usage counts bytes by calendar
// month in UTC. Importing it registers the driver "soracom".
package soracom

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
)

func init() { carrier.Register("soracom", Driver{}) }

// The two regions have SIMs of their own; one customer may need an account for each.
const (
	japanURL  = "https://api.soracom.io/v1"
	globalURL = "https://g.api.soracom.io/v1"
)

// pageSize is asked for in lists. The API states no most, and search stops at 100.
const pageSize = 100

// Driver is Soracom. Its zero value is ready.
type Driver struct{}

// Info declares what Soracom is like. It publishes no rate limits.
func (Driver) Info() carrier.Info {
	return carrier.Info{
		Name:           "soracom",
		Title:          "Soracom Air",
		DefaultBaseURL: japanURL,
		Hosts:          []string{"api.soracom.io", "g.api.soracom.io"},
		Credentials: []carrier.Field{
			{Name: "auth_key_id", Help: "id of an AuthKey of a SAM user (keyId-...)", Required: true},
			{Name: "auth_key", Help: "the AuthKey's secret (secret-...)", Required: true, Secret: true},
		},
		Settings: []carrier.Field{
			{Name: "region", Help: "japan (default) or global: where the SIMs were bought; each has its own"},
		},
		TrafficStates: []simwarden.State{simwarden.StateActive},
		Usage: carrier.UsageInfo{
			UnitBytes: 1,
			Period:    simwarden.ResetCalendarMonth,
			Zone:      "UTC",
			// Statistics are gathered about every five minutes; two rounds are usual.
			Lag: 10 * time.Minute,
		},
		Limit: carrier.LimitInfo{UnitBytes: limitUnitBytes, MostBytes: maxLimitUnits * limitUnitBytes},
		// A change is made before its answer goes out; this is room for reads from a replica.
		SettleTime: 5 * time.Second,
		PageSize:   pageSize,
		Reads:      []simwarden.CheckKind{simwarden.CheckState, simwarden.CheckUsage},
		Rules:      rules(),
	}
}

// Open makes a connection for one account. The error names what is missing.
func (Driver) Open(cfg carrier.Config) (carrier.Conn, error) {
	region := cfg.Settings["region"]
	base := cfg.BaseURL
	switch region {
	case "", "japan":
		if base == "" {
			base = japanURL
		}
	case "global":
		if base == "" {
			base = globalURL
		}
	default:
		return nil, fmt.Errorf("open soracom account: setting region is %q, want japan or global", region)
	}
	if u, err := url.Parse(base); err != nil || u.Host == "" || u.RawQuery != "" || u.User != nil {
		return nil, fmt.Errorf("open soracom account: the base URL is not of the form https://host/path")
	}
	for _, name := range []string{"auth_key_id", "auth_key"} {
		if cfg.Credentials[name] == "" {
			return nil, fmt.Errorf("open soracom account: credential %s is missing", name)
		}
	}
	c := &conn{cfg: cfg, base: strings.TrimSuffix(base, "/")}
	c.tokens = newTokens(cfg.Now, c.login)
	return c, nil
}
