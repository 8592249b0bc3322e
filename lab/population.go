package lab

import (
	"fmt"
	"time"

	"github.com/simwarden/simwarden"
)

// Population is a number of SIMs to invent.
type Population struct {
	Count int
	// ActiveShare of them, 0 to 1, begin active, InventoryShare in the carrier's inventory (or test)
	// state; the others suspended.
	ActiveShare    float64
	InventoryShare float64
	// Profiles with their weights; empty takes Mixed.
	Profiles map[UsageProfile]float64
	// Age is how long ago they came into their state: they have used data since then.
	Age time.Duration
}

// Mixed is a fleet as they are: mostly meters, some that follow the day, a heavy tail, and a few
// sudden streamers.
func Mixed() map[UsageProfile]float64 {
	return map[UsageProfile]float64{ProfileMeter: 0.6, ProfileDayNight: 0.2, ProfileHeavyTail: 0.18, ProfileStreamer: 0.02}
}

// NewSIM describes one SIM to add. Empty numbers are invented.
type NewSIM struct {
	ICCID   string
	IMSI    string
	MSISDN  string
	State   simwarden.State // ours or the carrier's raw word; empty: active
	Profile UsageProfile    // empty: silent
	Age     time.Duration   // how long it has been in this state
}

// Populate adds invented SIMs and returns their ICCIDs. The same seed, account order and number
// of SIMs give the same SIMs.
func (a *Account) Populate(p Population) ([]string, error) {
	profiles := p.Profiles
	if len(profiles) == 0 {
		profiles = Mixed()
	}
	order := []UsageProfile{ProfileMeter, ProfileDayNight, ProfileHeavyTail, ProfileStreamer, ProfileSilent}
	var sum float64
	for _, profile := range order {
		sum += profiles[profile]
	}
	if sum <= 0 || p.Count < 0 {
		return nil, fmt.Errorf("populate account %s: %d SIMs with profiles %v", a.Name(), p.Count, profiles)
	}
	iccids := make([]string, 0, p.Count)
	for i := range p.Count {
		seed := mix(a.world.seed, uint64(a.ordinal), uint64(a.Len()))
		add := NewSIM{State: simwarden.StateSuspended, Age: p.Age}
		switch share := unit(seed, uint64(i), 7); {
		case share < p.ActiveShare:
			add.State = simwarden.StateActive
		case share < p.ActiveShare+p.InventoryShare:
			add.State = a.idleState()
		}
		at := sum * unit(seed, uint64(i), 8)
		for _, profile := range order {
			if at -= profiles[profile]; at < 0 {
				add.Profile = profile
				break
			}
		}
		truth, err := a.AddSIM(add)
		if err != nil {
			return iccids, err
		}
		iccids = append(iccids, truth.ICCID)
	}
	return iccids, nil
}

// idleState is inventory, or test where the carrier has no inventory.
func (a *Account) idleState() simwarden.State {
	if _, ok := a.word(string(simwarden.StateInventory)); ok {
		return simwarden.StateInventory
	}
	return simwarden.StateTestReady
}

// AddSIM adds one SIM at the end of the carrier's list.
func (a *Account) AddSIM(add NewSIM) (SIMTruth, error) {
	now := a.world.settle()
	if add.State == "" {
		add.State = simwarden.StateActive
	}
	if add.Profile == "" {
		add.Profile = ProfileSilent
	}
	word, ok := a.word(string(add.State))
	if !ok {
		return SIMTruth{}, fmt.Errorf("add a sim in state %q to account %s: %w", add.State, a.Name(), ErrState)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	n := len(a.sims)
	if add.ICCID == "" {
		add.ICCID = inventICCID(a.ordinal, n, a.dialect.ICCIDDigits())
	}
	if add.IMSI == "" {
		add.IMSI = fmt.Sprintf("99999%03d%07d", a.ordinal%1000, n)
	}
	if add.MSISDN == "" {
		add.MSISDN = fmt.Sprintf("999%03d%08d", a.ordinal%1000, n)
	}
	key := a.dialect.Key(add.ICCID)
	if a.byICCID[add.ICCID] != nil || a.byKey[key] != nil {
		return SIMTruth{}, fmt.Errorf("add sim %s to account %s: it is there already", add.ICCID, a.Name())
	}
	began := now.Add(-add.Age)
	s := &sim{
		card:    Card{ICCID: add.ICCID, Key: key, IMSI: add.IMSI, MSISDN: add.MSISDN, CreatedAt: began, Index: n},
		usage:   newGenerator(add.Profile, mix(a.world.seed, uint64(a.ordinal), uint64(n), 9)),
		history: []moment{{at: began, word: word, by: "start"}},
	}
	a.sims = append(a.sims, s)
	a.byICCID[add.ICCID] = s
	a.byKey[key] = s
	a.byNumber[add.MSISDN], a.byNumber[add.IMSI] = s, s
	return s.truth(a, now), nil
}

// inventICCID makes a number that no carrier has: 89 for telecommunications, then 999, which
// ITU-T E.164 keeps for other uses, the account, the serial, and the Luhn digit (ITU-T E.118).
func inventICCID(account, serial, digits int) string {
	body := fmt.Sprintf("89999%03d%0*d", account%1000, digits-9, serial)
	sum := 0
	for i := range len(body) {
		d := int(body[len(body)-1-i] - '0')
		if i%2 == 0 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return body + string(rune('0'+(10-sum%10)%10))
}
