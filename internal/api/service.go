// Package api offers every operation of the product once: as Go methods for the command line, and
// as REST under /api/v1 for everybody else (I2).
package api

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/clock"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/secret"
	"github.com/simwarden/simwarden/internal/store"
)

// Service is the operations. It writes facts and returns: nothing here calls a carrier, but for what a
// person waits for, through the Asker.
type Service struct {
	Store   *store.Store
	Clock   clock.Clock
	Keyring *secret.Keyring
	// Asker asks carriers; nil: what needs it is refused with ErrNoAsker.
	Asker Asker

	summaries summaries
}

// ErrBadInput says that what was asked makes no sense, in words that tell what to do.
var ErrBadInput = errors.New("bad input")

func badInput(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrBadInput}, args...)...)
}

// maxReason bounds what a person says of an action, in characters.
const maxReason = 500

func checkReason(reason string) error {
	if utf8.RuneCountInString(reason) > maxReason || !cleanText(reason) {
		return badInput("a reason is text of at most %d characters without control characters", maxReason)
	}
	return nil
}

// FindSIM finds a SIM by its ICCID as people write it (I6).
func (s *Service) FindSIM(ctx context.Context, iccid string) (store.SIM, error) {
	id, err := simwarden.ParseICCID(iccid)
	if err != nil {
		return store.SIM{}, badInput("%v", err)
	}
	return s.Store.SIMByICCID(ctx, id)
}

// Ordered is what came of a manual order.
type Ordered struct {
	SIM       store.SIM           `json:"sim"`
	Action    string              `json:"action"` // open, observe, wait, none …
	Because   string              `json:"because,omitempty"`
	CommandID simwarden.CommandID `json:"command_id,omitempty"`
	Warnings  []string            `json:"warnings,omitempty"`
}

// Manual suspends or resumes one SIM for a person (E3).
func (s *Service) Manual(ctx context.Context, iccid string, direction simwarden.Direction, actor, reason string) (Ordered, error) {
	if err := checkReason(reason); err != nil {
		return Ordered{}, err
	}
	sim, err := s.FindSIM(ctx, iccid)
	if err != nil {
		return Ordered{}, err
	}
	var o reconcile.Outcome
	err = s.Store.InTx(ctx, func(tx *store.Tx) error {
		o, err = reconcile.Manual(ctx, tx, sim.ID, direction, actor, reason)
		return err
	})
	if err != nil {
		return Ordered{}, err
	}
	if sim, err = s.Store.SIM(ctx, sim.ID); err != nil {
		return Ordered{}, err
	}
	because := o.Ordered.Because
	if because == "" {
		because = o.Decision.Because
	}
	return Ordered{SIM: sim, Action: string(o.Ordered.Action), Because: because, CommandID: o.CommandID, Warnings: o.Decision.Warnings}, nil
}

// Polling pauses or resumes the polling of one SIM for a person (P4); changed is false where it
// was so already.
func (s *Service) Polling(ctx context.Context, iccid string, pause bool, actor, reason string) (sim store.SIM, changed bool, err error) {
	if err = checkReason(reason); err != nil {
		return sim, false, err
	}
	if sim, err = s.FindSIM(ctx, iccid); err != nil {
		return sim, false, err
	}
	err = s.Store.InTx(ctx, func(tx *store.Tx) error {
		if pause {
			changed, err = reconcile.PausePolling(ctx, tx, sim.ID, actor, reason)
		} else {
			changed, err = reconcile.ResumePolling(ctx, tx, sim.ID, actor, reason)
		}
		return err
	})
	if err != nil {
		return sim, false, err
	}
	sim, err = s.Store.SIM(ctx, sim.ID)
	return sim, changed, err
}
