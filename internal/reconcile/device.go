package reconcile

import (
	"context"
	"errors"
	"fmt"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
)

// What stands in the way of a binding; test with errors.Is.
var (
	ErrOwnPlans     = errors.New("this SIM has plans of its own; let them end, refund them, or have them moved to the device")
	ErrPlansCollide = errors.New("both the SIM and the device have a main plan; an asset has one at a time: let one end or refund it first")
	ErrOwnPool      = errors.New("this SIM is in a pool, which nothing would use in a device; take it out of the pool first")
	ErrDeviceFull   = fmt.Errorf("a device holds at most %d SIMs", store.MaxDeviceSIMs)
)

// Binding is a SIM to put into a device or to take out of one.
type Binding struct {
	SIMID    simwarden.SIMID
	DeviceID simwarden.DeviceID
	// MovePlans makes the SIM's own live subscriptions the device's; without it a SIM that has some is
	// not bound, since nothing would use them.
	MovePlans bool
	Actor     string
	Reason    string
}

// BindSIM puts a SIM into a device. From then on the device's plans count for it (E8), and it is
// judged by them (scene plan_check); where it brings plans, all the device's SIMs are. What the
// device's paused polling holds back it holds back for this SIM too. The errors are store.ErrBound,
// ErrOwnPlans, ErrPlansCollide, ErrOwnPool and ErrDeviceFull. It gives the subscriptions that moved.
func BindSIM(ctx context.Context, tx *store.Tx, b Binding) ([]simwarden.SubscriptionID, error) {
	device, sim, err := lockBinding(ctx, tx, b)
	if err != nil {
		return nil, err
	}
	if sim.DeviceID != 0 {
		return nil, fmt.Errorf("SIM %s: %w", sim.ICCID, store.ErrBound)
	}
	if device.SIMs >= store.MaxDeviceSIMs {
		return nil, fmt.Errorf("device %s: %w", device.IMEI, ErrDeviceFull)
	}
	own := store.Asset{SIMID: b.SIMID}
	if in, err := tx.PooledAssets(ctx, []store.Asset{own}); err != nil {
		return nil, err
	} else if in[own] != 0 {
		return nil, fmt.Errorf("SIM %s: %w", sim.ICCID, ErrOwnPool)
	}
	moved, err := movePlans(ctx, tx, b, sim)
	if err != nil {
		return nil, err
	}
	if err := tx.BindSIM(ctx, b.SIMID, b.DeviceID, b.Actor, b.Reason); err != nil {
		return nil, err
	}
	told := map[string]any{"device_id": device.ID, "imei": device.IMEI, "reason": b.Reason, "moved_subscriptions": moved}
	events := []store.NewEvent{{Kind: store.EventBound, SIMID: sim.ID, AccountID: sim.AccountID, Actor: b.Actor, Data: told}}
	if !device.PausedAt.IsZero() {
		events = append(events, store.NewEvent{Kind: store.EventDevicePaused, SIMID: sim.ID, AccountID: sim.AccountID, Actor: device.PausedBy,
			Data: map[string]any{"device_id": device.ID, "imei": device.IMEI, "reason": device.PausedReason}})
	}
	for _, id := range moved {
		events = append(events, store.NewEvent{Kind: store.EventPlanMoved, SIMID: sim.ID, AccountID: sim.AccountID, Actor: b.Actor,
			Data: map[string]any{"subscription_id": id, "device_id": device.ID, "imei": device.IMEI}})
	}
	request := store.Evaluation{SIMID: sim.ID, Scene: simwarden.ScenePlanCheck, Cause: store.Cause{Kind: store.CauseDevice, ID: int64(device.ID)}, AskedBy: b.Actor}
	if len(moved) > 0 {
		request.SIMID, request.DeviceID = 0, device.ID
	}
	return moved, finishBinding(ctx, tx, sim, "device_bind", b.Actor, told, events, request)
}

// UnbindSIM takes a SIM out of a device. From then on its own plans count, of which it has none, and
// it is judged by that: where the device ever had a plan, the SIM does not count as never planned
// (E2). What is still being asked of the device is asked of the SIM as well. The scene is plan_check;
// where the device's polling was paused, the SIM's goes on with this, and it is polling_resumed (E9).
// The error is store.ErrNotBound.
func UnbindSIM(ctx context.Context, tx *store.Tx, b Binding) error {
	device, sim, err := lockBinding(ctx, tx, b)
	if err != nil {
		return err
	}
	if err := tx.UnbindSIM(ctx, b.SIMID, b.DeviceID, b.Actor, b.Reason); err != nil {
		return err
	}
	if err := tx.HandDownRequests(ctx, device.ID, sim.ID); err != nil {
		return err
	}
	told := map[string]any{"device_id": device.ID, "imei": device.IMEI, "reason": b.Reason}
	events := []store.NewEvent{{Kind: store.EventUnbound, SIMID: sim.ID, AccountID: sim.AccountID, Actor: b.Actor, Data: told}}
	scene := simwarden.ScenePlanCheck
	if !device.PausedAt.IsZero() {
		scene = simwarden.ScenePollingResumed
		events = append(events, store.NewEvent{Kind: store.EventDeviceResumed, SIMID: sim.ID, AccountID: sim.AccountID, Actor: b.Actor, Data: told})
	}
	return finishBinding(ctx, tx, sim, "device_unbind", b.Actor, told, events,
		store.Evaluation{SIMID: sim.ID, Scene: scene, Cause: store.Cause{Kind: store.CauseDevice, ID: int64(device.ID)}, AskedBy: b.Actor})
}

// lockBinding locks the device, the SIM as an asset, and its facts, in the order of all who lock them.
func lockBinding(ctx context.Context, tx *store.Tx, b Binding) (store.Device, store.SIM, error) {
	device, err := tx.LockDevice(ctx, b.DeviceID)
	if err != nil {
		return device, store.SIM{}, err
	}
	if err := tx.LockAsset(ctx, store.Asset{SIMID: b.SIMID}); err != nil {
		return device, store.SIM{}, err
	}
	sim, err := tx.LockSIM(ctx, b.SIMID)
	return device, sim, err
}

func movePlans(ctx context.Context, tx *store.Tx, b Binding, sim store.SIM) ([]simwarden.SubscriptionID, error) {
	own, err := tx.LiveSubscriptions(ctx, store.Asset{SIMID: sim.ID})
	if err != nil || len(own) == 0 {
		return nil, err
	}
	if !b.MovePlans {
		return nil, fmt.Errorf("SIM %s: %w", sim.ICCID, ErrOwnPlans)
	}
	there, err := tx.LiveSubscriptions(ctx, store.Asset{DeviceID: b.DeviceID})
	if err != nil {
		return nil, err
	}
	if hasMain(own) && hasMain(there) {
		return nil, fmt.Errorf("SIM %s: %w", sim.ICCID, ErrPlansCollide)
	}
	return tx.MoveSubscriptions(ctx, sim.ID, b.DeviceID)
}

func hasMain(list []simwarden.Subscription) bool {
	for _, b := range list {
		if b.Kind == simwarden.PlanMain {
			return true
		}
	}
	return false
}

func finishBinding(ctx context.Context, tx *store.Tx, sim store.SIM, action, actor string, told any, events []store.NewEvent, request store.Evaluation) error {
	if err := tx.AddEvents(ctx, events); err != nil {
		return err
	}
	if err := tx.UnsettleSIMs(ctx, []simwarden.SIMID{sim.ID}); err != nil {
		return err
	}
	if _, err := tx.RequestEvaluation(ctx, request); err != nil {
		return err
	}
	return tx.Audit(ctx, actor, action, sim.ID, sim.AccountID, told)
}

// PauseDevice stops the polling of a device for a person (P4): that of all its SIMs, also of those
// that come into it later. It says whether it ran until now.
func PauseDevice(ctx context.Context, tx *store.Tx, id simwarden.DeviceID, actor, reason string) (bool, error) {
	return pauseDevice(ctx, tx, id, true, actor, reason)
}

// ResumeDevice takes the polling of a device up again and asks for an evaluation of its SIMs at once
// (E9). What a SIM's own pause or closed polling holds back stays so (E8). It says whether the
// device's was paused.
func ResumeDevice(ctx context.Context, tx *store.Tx, id simwarden.DeviceID, actor, reason string) (bool, error) {
	return pauseDevice(ctx, tx, id, false, actor, reason)
}

func pauseDevice(ctx context.Context, tx *store.Tx, id simwarden.DeviceID, pause bool, actor, reason string) (bool, error) {
	device, err := tx.LockDevice(ctx, id)
	if err != nil {
		return false, err
	}
	sims, err := tx.SIMsOfDevice(ctx, id)
	if err != nil {
		return false, err
	}
	if err := tx.LockSIMs(ctx, sims); err != nil {
		return false, err
	}
	changed, err := tx.SetDevicePause(ctx, id, pause, actor, reason)
	if err != nil || !changed {
		return false, err
	}
	kind, action := store.EventDevicePaused, "device_polling_pause"
	if !pause {
		kind, action = store.EventDeviceResumed, "device_polling_resume"
	}
	told := map[string]any{"device_id": id, "imei": device.IMEI, "reason": reason}
	events := make([]store.NewEvent, len(sims))
	for i, sim := range sims {
		events[i] = store.NewEvent{Kind: kind, SIMID: sim, Actor: actor, Data: told}
	}
	if err := tx.AddEvents(ctx, events); err != nil {
		return false, err
	}
	if err := tx.UnsettleSIMs(ctx, sims); err != nil {
		return false, err
	}
	if !pause {
		if _, err := tx.RequestEvaluation(ctx, store.Evaluation{DeviceID: id, Scene: simwarden.ScenePollingResumed,
			Cause: store.Cause{Kind: store.CausePause, ID: int64(id)}, AskedBy: actor}); err != nil {
			return false, err
		}
	}
	return true, tx.Audit(ctx, actor, action, 0, 0, told)
}
