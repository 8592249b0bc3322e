package api

import (
	"context"

	"github.com/simwarden/simwarden/internal/store"
)

// IMEIPath names a device.
type IMEIPath struct {
	IMEI string `path:"imei" maxLength:"64" doc:"With or without check digit or software version" example:"490154203237518"`
}

type deviceList struct {
	Paging
	Paused bool   `query:"paused" doc:"Only those whose polling a person has paused"`
	Search string `query:"search" maxLength:"64" doc:"The beginning of an IMEI or name"`
}

type deviceAdd struct {
	Body struct {
		IMEI string `json:"imei" minLength:"14" maxLength:"64"`
		Name string `json:"name,omitempty" maxLength:"200"`
	} `nameHint:"DeviceRequest"`
}

type deviceBind struct {
	IMEIPath
	Body struct {
		ICCID     string `json:"iccid" minLength:"1" maxLength:"64"`
		MovePlans bool   `json:"move_plans,omitempty" doc:"Make the SIM's own live plans the device's; without it a SIM that has some is refused"`
		Reason    string `json:"reason" minLength:"1" maxLength:"500" doc:"Why, for the audit log and whoever asks later"`
	} `nameHint:"BindRequest"`
}

type deviceUnbind struct {
	IMEIPath
	SIMPath
	Body why
}

type deviceOrder struct {
	IMEIPath
	Body why
}

type deviceBindings struct {
	IMEIPath
	Paging
}

type simBindings struct {
	SIMPath
	Paging
}

// DevicePollingChange is what came of pausing or resuming.
type DevicePollingChange struct {
	Device  store.Device `json:"device"`
	Changed bool         `json:"changed" doc:"False where it was so already"`
}

func (r *rest) devices() {
	on(r, get("/devices", "list-devices", "List devices"), func(ctx context.Context, in *deviceList) (Page[store.Device], error) {
		return r.service.Devices(ctx, DeviceQuery{Paused: in.Paused, Search: in.Search, Cursor: in.Cursor, Limit: in.Limit})
	})
	on(r, get("/devices/{imei}", "get-device", "Get one device with its SIMs and subscriptions"), func(ctx context.Context, in *IMEIPath) (DeviceView, error) {
		return r.service.Device(ctx, in.IMEI)
	})
	on(r, created(post("/devices", "add-device", "Add a device")), func(ctx context.Context, in *deviceAdd) (store.Device, error) {
		return r.service.AddDevice(ctx, in.Body.IMEI, in.Body.Name, actorOf(ctx))
	})
	on(r, post("/devices/{imei}/sims", "bind-sim", "Put a SIM into a device"), func(ctx context.Context, in *deviceBind) (Bound, error) {
		return r.service.BindSIM(ctx, in.IMEI, in.Body.ICCID, in.Body.MovePlans, actorOf(ctx), in.Body.Reason)
	})
	on(r, post("/devices/{imei}/sims/{iccid}/unbind", "unbind-sim", "Take a SIM out of a device"), func(ctx context.Context, in *deviceUnbind) (Bound, error) {
		return r.service.UnbindSIM(ctx, in.IMEI, in.ICCID, actorOf(ctx), in.Body.Reason)
	})
	for pause, words := range map[bool][3]string{
		true:  {"pause", "pause-device-polling", "Pause the polling of a device with all its SIMs"},
		false: {"resume", "resume-device-polling", "Take the polling of a device up again"},
	} {
		on(r, post("/devices/{imei}/polling/"+words[0], words[1], words[2]), func(ctx context.Context, in *deviceOrder) (DevicePollingChange, error) {
			d, changed, err := r.service.DevicePolling(ctx, in.IMEI, pause, actorOf(ctx), in.Body.Reason)
			return DevicePollingChange{d, changed}, err
		})
	}
	on(r, get("/devices/{imei}/bindings", "list-device-bindings", "List which SIMs are and were in a device, newest first"),
		func(ctx context.Context, in *deviceBindings) (Page[store.Binding], error) {
			return r.service.DeviceBindings(ctx, in.IMEI, in.Cursor, in.Limit)
		})
	on(r, get("/sims/{iccid}/bindings", "list-sim-bindings", "List in which devices a SIM is and was, newest first"),
		func(ctx context.Context, in *simBindings) (Page[store.Binding], error) {
			return r.service.SIMBindings(ctx, in.ICCID, in.Cursor, in.Limit)
		})
}
