package api

import (
	"context"
	"errors"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/poller"
	"github.com/simwarden/simwarden/internal/store"
)

// Asker asks carriers, at once, for a person who waits for the answer.
type Asker interface {
	Refresh(ctx context.Context, account simwarden.AccountID, id simwarden.SIMID) ([]poller.Refreshed, error)
	// Probe makes the cheapest authenticated call there is.
	Probe(ctx context.Context, account simwarden.AccountID) error
}

// ErrNoAsker says that this process calls no carriers.
var ErrNoAsker = errors.New("this process calls no carriers; ask one that runs: simwarden serve")

// askFor bounds how long a person waits for a carrier: a request of ours takes no longer.
const askFor = requestTimeout - 5*time.Second

// SIMRefreshed is what a carrier said of a SIM just now.
type SIMRefreshed struct {
	SIM    store.SIM    `json:"sim" doc:"As it stands with what was read"`
	Checks []FreshCheck `json:"checks" doc:"In the order in which they were made; they end with the first that the carrier did not answer"`
}

// FreshCheck is one check that was made for a person.
type FreshCheck struct {
	Check         simwarden.CheckKind     `json:"check"`
	Read          bool                    `json:"read"`
	ReadAt        time.Time               `json:"read_at,omitzero" doc:"When the carrier was asked"`
	TrueAt        time.Time               `json:"true_at,omitzero" doc:"For which instant the figure is true, where the carrier says so"`
	State         simwarden.State         `json:"state,omitempty"`
	ExtendedState simwarden.ExtendedState `json:"extended_state,omitempty"`
	RawState      string                  `json:"raw_state,omitempty" doc:"The carrier's own word"`
	Pending       bool                    `json:"pending,omitempty" doc:"The carrier is changing it"`
	CounterBytes  *int64                  `json:"counter_bytes,omitempty" doc:"The carrier's counter of this period"`
	PeriodStartAt time.Time               `json:"period_start_at,omitzero"`
	RealName      simwarden.RealName      `json:"realname,omitempty"`
	WhyNot        *CarrierNo              `json:"why_not,omitempty"`
}

// CarrierNo is why a carrier did not answer, or why it was not asked.
type CarrierNo struct {
	Class             carrier.Class `json:"class,omitempty" doc:"throttled: the carrier's limit; stopped: the account's calls are stopped or rest; not_found: the carrier does not know the SIM; and so on"`
	Message           string        `json:"message"`
	HTTPStatus        int           `json:"http_status,omitempty"`
	Code              string        `json:"code,omitempty" doc:"The carrier's"`
	RetryAfterSeconds float64       `json:"retry_after_seconds,omitempty"`
}

// carrierNo puts an error of a call into an answer. One that no carrier and no gateway made tells nothing
// of itself.
func carrierNo(err error) *CarrierNo {
	var e *carrier.Error
	switch {
	case errors.As(err, &e):
		said := e.Message
		if said == "" {
			said = e.Error()
		}
		return &CarrierNo{Class: e.Class, Message: said, HTTPStatus: e.HTTPStatus, Code: e.Code, RetryAfterSeconds: e.RetryAfter.Seconds()}
	case errors.Is(err, poller.ErrListedOnly):
		return &CarrierNo{Message: err.Error()}
	}
	return &CarrierNo{Message: "the carrier's answer could not be understood"}
}

// Refresh reads one SIM at its carrier now, for a person (G2), and takes in what is read. A SIM whose
// polling is paused or closed is read too and stays so (P4, P5).
func (s *Service) Refresh(ctx context.Context, iccid, actor string) (SIMRefreshed, error) {
	if s.Asker == nil {
		return SIMRefreshed{}, ErrNoAsker
	}
	sim, err := s.FindSIM(ctx, iccid)
	if err != nil {
		return SIMRefreshed{}, err
	}
	if err := s.countCall(ctx, actor, "sim_refresh", sim.ID, sim.AccountID); err != nil {
		return SIMRefreshed{}, err
	}
	ask, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	list, err := s.Asker.Refresh(ask, sim.AccountID, sim.ID)
	if err != nil {
		return SIMRefreshed{}, err
	}
	out := SIMRefreshed{Checks: make([]FreshCheck, len(list))}
	for i, r := range list {
		out.Checks[i] = freshCheck(r)
	}
	out.SIM, err = s.Store.SIM(ctx, sim.ID)
	return out, err
}

// countCall counts a person's call to a carrier and writes it into the audit log, before it is made.
func (s *Service) countCall(ctx context.Context, actor, action string, sim simwarden.SIMID, account simwarden.AccountID) error {
	return s.Store.InTx(ctx, func(tx *store.Tx) error {
		if err := tx.TakePersonCall(ctx, actor); err != nil {
			return err
		}
		return tx.Audit(ctx, actor, action, sim, account, map[string]any{})
	})
}

func freshCheck(r poller.Refreshed) FreshCheck {
	c := FreshCheck{Check: r.Check, Read: r.Err == nil}
	if r.Err != nil {
		c.WhyNot = carrierNo(r.Err)
		return c
	}
	c.ReadAt = r.Reading.ReadAt.UTC()
	if v := r.Reading.State; v != nil && r.Check == simwarden.CheckState {
		c.State, c.ExtendedState, c.RawState, c.Pending = v.State, v.Extended, v.Raw, v.Pending
	}
	if v := r.Reading.Usage; v != nil && r.Check == simwarden.CheckUsage {
		c.CounterBytes, c.PeriodStartAt, c.TrueAt = &v.CounterBytes, v.PeriodStartAt, v.TrueAt
	}
	if v := r.Reading.RealName; v != nil && r.Check == simwarden.CheckRealName {
		c.RealName = v.Status
	}
	return c
}
