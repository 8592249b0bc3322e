package reconcile

import (
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/calendar"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/store"
)

// limit notes which data limit the carrier should hold for the SIM (P8), where that has changed. It
// commits with what changed it, like a command.
func (w *writer) limit(sim store.SIMFacts, account store.Account) {
	if !account.CarrierLimits && !sim.LimitKnown {
		return
	}
	want := rules.CarrierLimit(limitInput(sim, account))
	if want.Keep || want.Bytes == sim.LimitDesiredB {
		return
	}
	w.limits = append(w.limits, store.LimitWanted{SIMID: sim.ID, AccountID: sim.AccountID, Bytes: want.Bytes, Because: want.Because})
}

// limitInput needs the SIM's facts completed. A driver that is not built in can hold no limits.
func limitInput(sim store.SIMFacts, account store.Account) rules.CarrierLimitInput {
	var info carrier.Info
	if driver, err := carrier.Lookup(account.Driver); err == nil {
		info = driver.Info()
	}
	return rules.CarrierLimitInput{
		Facts: sim.Facts, On: account.CarrierLimits && info.Limit.UnitBytes > 0, InDevice: sim.DeviceID != 0,
		CounterBytes: sim.CounterB, PeriodStartAt: sim.PeriodStart, PeriodNowAt: periodAt(info.Usage, sim.Facts.NowAt),
		UnitBytes: info.Limit.UnitBytes, MostBytes: info.Limit.MostBytes,
	}
}

// periodAt is the start of the carrier's running period; zero where only its readings tell it.
func periodAt(u carrier.UsageInfo, at time.Time) time.Time {
	if u.Period != simwarden.ResetCalendarMonth {
		return time.Time{}
	}
	zone, err := calendar.LoadZone(u.Zone)
	if err != nil {
		return time.Time{}
	}
	return calendar.StartOfMonth(at, zone)
}
