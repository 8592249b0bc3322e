// Package onelink speaks China Mobile's OneLink API v5: every answer is HTTP 200 with a code within,
// a login ends the one before, changes are orders, SIMs are listed by groups, usage comes in KB as
// text by calendar months of UTC+8. Importing it registers the driver "onelink".
package onelink

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
)

func init() { carrier.Register("onelink", Driver{}) }

const (
	baseURL = "https://api.iot.10086.cn"
	// pageSize is the most that a page of groups or of their members holds.
	pageSize = 50
	// batchSize is the most numbers that a batch takes.
	batchSize = 100
	// changeGap is the least time between two changes of one SIM by these calls.
	changeGap = 3 * time.Minute
	// kilobyte is the unit of all usage.
	kilobyte = 1024
)

// The credentials and settings.
const (
	fieldAppID    = "appid"
	fieldPassword = "password"
	fieldPlatform = "platform"
)

// zone is the one in which the carrier counts and writes times; China has no summer time.
var zone = time.FixedZone("UTC+8", 8*60*60)

// Driver is OneLink. Its zero value is ready.
type Driver struct{}

// Info declares what OneLink is like. Its rates are in each customer's contract.
func (Driver) Info() carrier.Info {
	return carrier.Info{
		Name:           "onelink",
		Title:          "China Mobile IoT (OneLink)",
		DefaultBaseURL: baseURL,
		Hosts:          []string{"api.iot.10086.cn"},
		Credentials: []carrier.Field{
			{Name: fieldAppID, Help: "appid of the enterprise's API access, at most 26 characters", Required: true},
			{Name: fieldPassword, Help: "the password that belongs to the appid", Required: true, Secret: true},
		},
		Settings: []carrier.Field{
			{Name: fieldPlatform, Help: "ct, pb or mixed (default): which platform the SIMs are on; it says how old usage figures are"},
		},
		// A SIM that is testable has a small allowance of its own.
		TrafficStates: []simwarden.State{simwarden.StateActive, simwarden.StateTestReady},
		Usage: carrier.UsageInfo{
			UnitBytes: kilobyte,
			Period:    simwarden.ResetCalendarMonth,
			Zone:      "Asia/Shanghai",
			Lag:       15 * time.Minute,
		},
		PerSIMGap:   changeGap,
		PerSIMGapOn: []simwarden.Operation{simwarden.OpSuspend, simwarden.OpResume},
		// An order is worked off within minutes; until then a read shows the state before it.
		SettleTime:    time.Minute,
		StateLag:      time.Minute,
		PageSize:      pageSize,
		ListNamesOnly: true,
		Reads:         []simwarden.CheckKind{simwarden.CheckState, simwarden.CheckUsage, simwarden.CheckRealName},
		Rules:         rules(),
	}
}

// Open makes a connection for one account. The error names what is missing.
func (Driver) Open(cfg carrier.Config) (carrier.Conn, error) {
	base := cfg.BaseURL
	if base == "" {
		base = baseURL
	}
	if u, err := url.Parse(base); err != nil || u.Host == "" || u.RawQuery != "" || u.User != nil {
		return nil, fmt.Errorf("open onelink account: the base URL is not of the form https://host/path")
	}
	for _, name := range []string{fieldAppID, fieldPassword} {
		if cfg.Credentials[name] == "" {
			return nil, fmt.Errorf("open onelink account: credential %s is missing", name)
		}
	}
	if !validAppID(cfg.Credentials[fieldAppID]) {
		return nil, fmt.Errorf("open onelink account: credential %s has other than 1 to %d letters and digits", fieldAppID, maxAppID)
	}
	c := &conn{cfg: cfg, base: strings.TrimSuffix(strings.TrimSuffix(base, "/"), "/v5/ec") + "/v5/ec/", transids: newTransids(cfg.Credentials[fieldAppID])}
	switch cfg.Settings[fieldPlatform] {
	case "", "mixed":
	case "ct":
		c.platforms.all = platformCT
	case "pb":
		c.platforms.all = platformPB
	default:
		return nil, fmt.Errorf("open onelink account: setting %s is %q, want ct, pb or mixed", fieldPlatform, cfg.Settings[fieldPlatform])
	}
	store := cfg.Tokens
	if store == nil {
		store = carrier.NewMemoryTokens(cfg.Now)
	}
	c.tokens = newTokens(cfg.Now, store, c.login)
	return c, nil
}
