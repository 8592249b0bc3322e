package plans

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/calendar"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/store"
)

// ErrOverlap says that a plan which can begin at once alone was bought while another main plan is in
// force or queued: two never run at the same time (L4). It is an ErrPlanInvalid too.
var ErrOverlap = fmt.Errorf("%w now: it begins at once alone, and another main plan is in force or queued", ErrPlanInvalid)

// maxActivateBy bounds the latest start of what waits, in days: ten years.
const maxActivateBy = 3660

// checkModes checks when a plan begins and from which day its billing months run; bad makes the error.
func checkModes(p simwarden.Plan, bad func(string, ...any) error) error {
	billing := p.ValidityUnit == simwarden.ValidityBilling || p.Reset == simwarden.ResetBilling
	switch {
	case billing && (p.AnchorDay < 1 || p.AnchorDay > 31):
		return bad("a billing month begins on day 1 to 31, not %d; in a shorter month the last day stands for it", p.AnchorDay)
	case !billing && p.AnchorDay != 0:
		return bad("day %d goes with a validity or reset of billing_month alone", p.AnchorDay)
	case p.Activation != "" && !slices.Contains(simwarden.Activations(), p.Activation):
		return bad("its activation is %q; give now, after_current, first_use or realname", p.Activation)
	case p.Kind == simwarden.PlanAddon && p.Activation != "" && p.Activation != simwarden.ActivateNow:
		return bad("an add-on begins at once; its activation cannot be %s", p.Activation)
	case p.ActivateByDays < 0 || p.ActivateByDays > maxActivateBy:
		return bad("its latest start is after %d days; give 1 to %d, or 0 for none", p.ActivateByDays, maxActivateBy)
	case p.ActivateByDays != 0 && !p.Activation.Waits():
		return bad("a latest start goes with activation first_use or realname alone")
	}
	return nil
}

// activate says whether what is bought begins at once, and writes on it what it waits for otherwise.
// An order that says since when it runs has been activated already.
func activate(ctx context.Context, tx *store.Tx, b *simwarden.Subscription, o Order, ahead bool) (bool, error) {
	if o.Plan.Kind == simwarden.PlanAddon {
		b.Activation = simwarden.ActivateNow
		return true, nil
	}
	b.Activation = o.Plan.Activation
	if b.Activation == simwarden.ActivateNow && ahead {
		return false, ErrOverlap
	}
	if b.Activation.Waits() && !o.StartAt.IsZero() {
		b.Activation = simwarden.ActivateAfterCurrent
	}
	if !b.Activation.Waits() {
		return !ahead, nil
	}
	if b.Activation == simwarden.ActivateRealName {
		verified, err := tx.Verified(ctx, o.Asset)
		if err != nil {
			return false, err
		}
		if verified {
			b.ReadyAt = tx.At
			return !ahead, nil
		}
	}
	if o.Plan.ActivateByDays > 0 {
		zone, err := calendar.LoadZone(o.Plan.Zone)
		if err != nil {
			return false, fmt.Errorf("%w: %w", ErrPlanInvalid, err)
		}
		b.ActivateBy = calendar.AddDays(tx.At, o.Plan.ActivateByDays, zone)
	}
	return false, nil
}

// sweepStarts starts what has waited for its first use, a real name, or its latest start (L4).
func (s *Sweeper) sweepStarts(ctx context.Context) (int, error) {
	n, err := s.work(ctx, batch{aside: &s.starts, name: "start", take: s.trusted((*store.Tx).TakeWoken), do: start})
	if err != nil {
		return 0, fmt.Errorf("start subscriptions: %w", err)
	}
	return n, nil
}

// start starts what can begin for the assets of the woken subscriptions. Where a main plan still runs,
// its end starts them, also where that has come: its own sweep knows whether it may end now.
func start(ctx context.Context, tx *store.Tx, woken []simwarden.Subscription) error {
	c, err := change(ctx, tx, assetsOf(woken), func(live []simwarden.Subscription) bool {
		return !slices.ContainsFunc(live, func(b simwarden.Subscription) bool {
			return b.Kind == simwarden.PlanMain && b.State != simwarden.SubscriptionQueued
		})
	})
	if err != nil {
		return err
	}
	ids := make([]simwarden.SubscriptionID, len(woken))
	for i, b := range woken {
		ids[i] = b.ID
	}
	if err := tx.Rest(ctx, ids); err != nil {
		return err
	}
	return c.flush(ctx)
}

// sceneOfStart is the scene in which an asset is judged whose plans have begun: that of what the last
// of them waited for (E4).
func sceneOfStart(started []rules.StartedSubscription) simwarden.Scene {
	switch started[len(started)-1].Waited {
	case simwarden.ActivateFirstUse:
		return simwarden.ScenePlanActivated
	case simwarden.ActivateRealName:
		return simwarden.SceneRealNameActivated
	}
	return simwarden.SceneQueuedActivated
}

// mainRunning says whether a main plan is in force.
func mainRunning(live []simwarden.Subscription, at time.Time) bool {
	return slices.ContainsFunc(live, func(b simwarden.Subscription) bool { return b.Kind == simwarden.PlanMain && b.InForce(at) })
}

// notBefore lets what is queued and has what it waits for begin at the instant at the earliest: until
// then the one taken back was before it.
func notBefore(live []simwarden.Subscription, at time.Time) {
	for i, b := range live {
		if _, may := b.MayBegin(at); may && b.State == simwarden.SubscriptionQueued && b.Activation.Waits() {
			live[i].ReadyAt, live[i].ActivateBy = at, time.Time{}
		}
	}
}
