package api

import (
	"context"
	"unicode/utf8"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/store"
)

// DeviceQuery narrows a list of devices; zero fields do not.
type DeviceQuery struct {
	Paused bool
	Search string // the beginning of an IMEI or of a name
	Cursor string
	Limit  int // 0: DefaultPage; at most MaxPage
}

// DeviceView is a device with its SIMs and what was bought for it, the newest first.
type DeviceView struct {
	store.Device
	Cards         []store.SIM              `json:"cards"`
	Subscriptions []simwarden.Subscription `json:"subscriptions"`
}

// Bound is what came of binding a SIM to a device.
type Bound struct {
	SIM    store.SIM                  `json:"sim"`
	Device store.Device               `json:"device"`
	Moved  []simwarden.SubscriptionID `json:"moved_subscriptions,omitempty"` // now the device's
}

const maxDeviceName = 200

// Devices lists devices in the order in which they were added.
func (s *Service) Devices(ctx context.Context, q DeviceQuery) (Page[store.Device], error) {
	limit, err := pageLimit(q.Limit)
	if err != nil {
		return Page[store.Device]{}, err
	}
	after, err := cursorID("device", q.Cursor)
	if err != nil {
		return Page[store.Device]{}, err
	}
	if len(q.Search) > maxSearch {
		return Page[store.Device]{}, badInput("a search of %d characters: give at most %d", len(q.Search), maxSearch)
	}
	rows, err := s.Store.Devices(ctx, store.DeviceFilter{Paused: q.Paused, Search: q.Search, After: simwarden.DeviceID(after), Limit: limit + 1})
	if err != nil {
		return Page[store.Device]{}, err
	}
	return pageOf(rows, limit, "device", func(d store.Device) int64 { return int64(d.ID) }), nil
}

// FindDevice finds a device by its IMEI as people write it: with or without check digit or software
// version.
func (s *Service) FindDevice(ctx context.Context, imei string) (store.Device, error) {
	id, err := simwarden.ParseIMEI(imei)
	if err != nil {
		return store.Device{}, badInput("%v", err)
	}
	return s.Store.DeviceByIMEI(ctx, id)
}

// Device gives a device with its SIMs, up to MaxPage, and its latest subscriptions.
func (s *Service) Device(ctx context.Context, imei string) (DeviceView, error) {
	d, err := s.FindDevice(ctx, imei)
	if err != nil {
		return DeviceView{}, err
	}
	v := DeviceView{Device: d}
	if v.Cards, err = s.Store.SIMs(ctx, store.SIMFilter{DeviceID: d.ID, Limit: MaxPage}); err != nil {
		return v, err
	}
	v.Subscriptions, err = s.Store.SubscriptionsOfDevice(ctx, d.ID, maxSubscriptions)
	return v, err
}

// AddDevice adds a device; store.ErrDeviceExists where its equipment is there.
func (s *Service) AddDevice(ctx context.Context, imei, name, actor string) (d store.Device, err error) {
	id, err := simwarden.ParseIMEI(imei)
	if err != nil {
		return d, badInput("%v", err)
	}
	if utf8.RuneCountInString(name) > maxDeviceName || !cleanText(name) {
		return d, badInput("a device's name has at most %d characters, none of them a control character", maxDeviceName)
	}
	err = s.Store.InTx(ctx, func(tx *store.Tx) error {
		if d, err = tx.AddDevice(ctx, id, name); err != nil {
			return err
		}
		return tx.Audit(ctx, actor, "device_add", 0, 0, map[string]any{"device_id": d.ID, "imei": d.IMEI, "name": name})
	})
	return d, err
}

// BindSIM puts a SIM into a device: from then on the device's plans count for it (E8). A SIM that has
// plans of its own is refused unless they are to move to the device with it.
func (s *Service) BindSIM(ctx context.Context, imei, iccid string, movePlans bool, actor, reason string) (Bound, error) {
	b, err := s.binding(ctx, imei, iccid, actor, reason)
	if err != nil {
		return Bound{}, err
	}
	b.MovePlans = movePlans
	var out Bound
	err = s.Store.InTx(ctx, func(tx *store.Tx) error {
		out.Moved, err = reconcile.BindSIM(ctx, tx, b)
		return err
	})
	if err != nil {
		return Bound{}, err
	}
	return s.bound(ctx, out, b)
}

// UnbindSIM takes a SIM out of a device: from then on it stands alone, without a plan until one is
// bought for it.
func (s *Service) UnbindSIM(ctx context.Context, imei, iccid, actor, reason string) (Bound, error) {
	b, err := s.binding(ctx, imei, iccid, actor, reason)
	if err != nil {
		return Bound{}, err
	}
	if err := s.Store.InTx(ctx, func(tx *store.Tx) error { return reconcile.UnbindSIM(ctx, tx, b) }); err != nil {
		return Bound{}, err
	}
	return s.bound(ctx, Bound{}, b)
}

func (s *Service) binding(ctx context.Context, imei, iccid, actor, reason string) (reconcile.Binding, error) {
	if err := checkReason(reason); err != nil {
		return reconcile.Binding{}, err
	}
	d, err := s.FindDevice(ctx, imei)
	if err != nil {
		return reconcile.Binding{}, err
	}
	sim, err := s.FindSIM(ctx, iccid)
	return reconcile.Binding{SIMID: sim.ID, DeviceID: d.ID, Actor: actor, Reason: reason}, err
}

func (s *Service) bound(ctx context.Context, out Bound, b reconcile.Binding) (_ Bound, err error) {
	if out.SIM, err = s.Store.SIM(ctx, b.SIMID); err != nil {
		return out, err
	}
	out.Device, err = s.Store.DeviceByID(ctx, b.DeviceID)
	return out, err
}

// DevicePolling pauses or resumes the polling of a device for a person (P4): that of all its SIMs,
// whose own pauses stay as they are (E8). changed is false where it was so already.
func (s *Service) DevicePolling(ctx context.Context, imei string, pause bool, actor, reason string) (d store.Device, changed bool, err error) {
	if err = checkReason(reason); err != nil {
		return d, false, err
	}
	if d, err = s.FindDevice(ctx, imei); err != nil {
		return d, false, err
	}
	err = s.Store.InTx(ctx, func(tx *store.Tx) error {
		if pause {
			changed, err = reconcile.PauseDevice(ctx, tx, d.ID, actor, reason)
		} else {
			changed, err = reconcile.ResumeDevice(ctx, tx, d.ID, actor, reason)
		}
		return err
	})
	if err != nil {
		return d, false, err
	}
	d, err = s.Store.DeviceByID(ctx, d.ID)
	return d, changed, err
}

// DeviceBindings lists which SIMs are and were in a device, the newest first.
func (s *Service) DeviceBindings(ctx context.Context, imei, cursor string, limit int) (Page[store.Binding], error) {
	d, err := s.FindDevice(ctx, imei)
	if err != nil {
		return Page[store.Binding]{}, err
	}
	return s.bindings(ctx, store.BindingFilter{DeviceID: d.ID}, cursor, limit)
}

// SIMBindings lists in which devices a SIM is and was, the newest first.
func (s *Service) SIMBindings(ctx context.Context, iccid, cursor string, limit int) (Page[store.Binding], error) {
	sim, err := s.FindSIM(ctx, iccid)
	if err != nil {
		return Page[store.Binding]{}, err
	}
	return s.bindings(ctx, store.BindingFilter{SIMID: sim.ID}, cursor, limit)
}

func (s *Service) bindings(ctx context.Context, f store.BindingFilter, cursor string, limit int) (Page[store.Binding], error) {
	limit, err := pageLimit(limit)
	if err != nil {
		return Page[store.Binding]{}, err
	}
	if f.Before, err = cursorID("binding", cursor); err != nil {
		return Page[store.Binding]{}, err
	}
	f.Limit = limit + 1
	rows, err := s.Store.Bindings(ctx, f)
	if err != nil {
		return Page[store.Binding]{}, err
	}
	return pageOf(rows, limit, "binding", func(b store.Binding) int64 { return b.ID }), nil
}
