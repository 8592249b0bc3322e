package simwarden

import "time"

// Reading is what a carrier said of one SIM in one answer. Parts that the answer did not speak
// of are nil: an absent part never overwrites a known one.
type Reading struct {
	// Key names the SIM as the carrier does; ICCID may be zero where the answer lacks it.
	Key   string
	ICCID ICCID
	// ReadAt is when the request was begun (not when the answer came): a lower bound for the
	// instant that the answer speaks of. UTC.
	ReadAt   time.Time
	State    *StateReading
	Usage    *UsageReading
	RealName *RealNameReading
}

// StateReading is a SIM's state as read.
type StateReading struct {
	State    State
	Pending  bool // the carrier is changing it
	Extended ExtendedState
	// Raw is the carrier's own word, kept beside the normal form.
	Raw string
	// ChangedAt is when the carrier says the state last changed; zero where it does not say. UTC.
	ChangedAt time.Time
}

// UsageReading is a SIM's data counter as read. Usage is a lower bound (E11).
type UsageReading struct {
	// CounterBytes is the carrier's counter since PeriodStartAt, upload and download together.
	CounterBytes int64
	// PeriodStartAt and PeriodEndAt bound the carrier's counting period in UTC; a zero
	// PeriodStartAt is a counter that never resets.
	PeriodStartAt time.Time
	PeriodEndAt   time.Time
	// TrueAt is the instant for which the figure is true as far as the carrier says; zero: ReadAt.
	TrueAt time.Time
}

// RealNameReading is a SIM's real-name status as read.
type RealNameReading struct {
	Status RealName
	Raw    string
}
