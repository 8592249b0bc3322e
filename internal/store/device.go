package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/simwarden/simwarden"
)

// Device is a piece of equipment that holds SIMs; plans may be bought for it as a whole (E8).
type Device struct {
	ID           simwarden.DeviceID `json:"id"`
	IMEI         string             `json:"imei"`
	Name         string             `json:"name,omitempty"`
	SIMs         int                `json:"sims"` // how many are in it now
	EverPlanned  bool               `json:"ever_planned"`
	PausedAt     time.Time          `json:"paused_at,omitzero"`
	PausedBy     string             `json:"paused_by,omitempty"`
	PausedReason string             `json:"paused_reason,omitempty"`
	CreatedAt    time.Time          `json:"created_at"`
}

// Binding is one stay of a SIM in a device; it lasts while UnboundAt is zero. UTC.
type Binding struct {
	ID            int64              `json:"id"`
	SIMID         simwarden.SIMID    `json:"sim_id"`
	ICCID         string             `json:"iccid"`
	DeviceID      simwarden.DeviceID `json:"device_id"`
	IMEI          string             `json:"imei"`
	BoundAt       time.Time          `json:"bound_at"`
	BoundBy       string             `json:"bound_by"`
	BoundReason   string             `json:"bound_reason,omitempty"`
	UnboundAt     time.Time          `json:"unbound_at,omitzero"`
	UnboundBy     string             `json:"unbound_by,omitempty"`
	UnboundReason string             `json:"unbound_reason,omitempty"`
}

// What can be wrong with a binding; test with errors.Is.
var (
	ErrDeviceExists = errors.New("this device is there already")
	ErrBound        = errors.New("this SIM is in a device already")
	ErrNotBound     = errors.New("this SIM is not in this device")
)

// MaxDeviceSIMs is how many SIMs can be bound to one device.
const MaxDeviceSIMs = 1000

// CauseDevice is the cause of what follows from a SIM's coming into or out of a device.
const CauseDevice = "device"

// The kinds of event of devices; each SIM concerned has its own, for its timeline.
const (
	EventBound         = "device_bound"
	EventUnbound       = "device_unbound"
	EventDevicePaused  = "device_polling_paused"
	EventDeviceResumed = "device_polling_resumed"
	EventPlanMoved     = "plan_moved"
	EventRealName      = "realname_set"
)

const deviceColumns = `d.id, coalesce(d.imei, ''), d.name, (SELECT count(*) FROM sim s WHERE s.device_id = d.id), d.ever_planned,
	d.paused_at, d.paused_by, d.paused_reason, d.created_at`

func scanDevice(row pgx.Row) (Device, error) {
	var d Device
	var paused *time.Time
	err := one(row, &d.ID, &d.IMEI, &d.Name, &d.SIMs, &d.EverPlanned, &paused, &d.PausedBy, &d.PausedReason, &d.CreatedAt)
	d.PausedAt, d.CreatedAt = timeOf(paused), d.CreatedAt.UTC()
	return d, err
}

// DeviceByIMEI finds a device by its IMEI, with or without check digit or software version: the
// first fourteen digits name the equipment (3GPP TS 23.003 section 6.2).
func (s *Store) DeviceByIMEI(ctx context.Context, imei simwarden.IMEI) (Device, error) {
	return deviceByIMEI(ctx, s.pool, imei)
}

func deviceByIMEI(ctx context.Context, db execer, imei simwarden.IMEI) (Device, error) {
	d, err := scanDevice(db.QueryRow(ctx, `SELECT `+deviceColumns+` FROM device d
		WHERE left(d.imei, 14) = left($1, 14) ORDER BY d.imei = $1 DESC, d.id LIMIT 1`, imei.String()))
	if err != nil {
		return d, fmt.Errorf("device with IMEI %s: %w", imei, err)
	}
	return d, nil
}

// DeviceByID gives one device.
func (s *Store) DeviceByID(ctx context.Context, id simwarden.DeviceID) (Device, error) {
	return deviceByID(ctx, s.pool, id)
}

func deviceByID(ctx context.Context, db execer, id simwarden.DeviceID) (Device, error) {
	d, err := scanDevice(db.QueryRow(ctx, `SELECT `+deviceColumns+` FROM device d WHERE d.id = $1`, id))
	if err != nil {
		return d, fmt.Errorf("device %d: %w", id, err)
	}
	return d, nil
}

// DeviceFilter narrows a list of devices; zero fields do not. After is the id of the last one of the
// page before.
type DeviceFilter struct {
	Paused bool
	Search string // the beginning of an IMEI or a name
	After  simwarden.DeviceID
	Limit  int
}

// Devices lists devices in the order of their ids.
func (s *Store) Devices(ctx context.Context, f DeviceFilter) ([]Device, error) {
	rows, err := s.pool.Query(ctx, `SELECT `+deviceColumns+` FROM device d
		WHERE d.id > $1 AND (NOT $2 OR d.paused_at IS NOT NULL) AND ($3 = '' OR starts_with(d.imei, $3) OR starts_with(d.name, $3))
		ORDER BY d.id LIMIT $4`, f.After, f.Paused, f.Search, f.Limit)
	if err != nil {
		return nil, fmt.Errorf("list devices: %w", err)
	}
	defer rows.Close()
	out := []Device{}
	for rows.Next() {
		d, err := scanDevice(rows)
		if err != nil {
			return nil, fmt.Errorf("list devices: %w", err)
		}
		out = append(out, d)
	}
	return out, rows.Err()
}

// AddDevice adds a device; ErrDeviceExists where its equipment is there.
func (tx *Tx) AddDevice(ctx context.Context, imei simwarden.IMEI, name string) (Device, error) {
	switch d, err := deviceByIMEI(ctx, tx, imei); {
	case err == nil:
		return d, fmt.Errorf("IMEI %s: %w", d.IMEI, ErrDeviceExists)
	case !errors.Is(err, ErrNotFound):
		return d, err
	}
	var id simwarden.DeviceID
	err := tx.QueryRow(ctx, `INSERT INTO device (imei, name, created_at) VALUES ($1, $2, $3) RETURNING id`, imei.String(), name, tx.At).Scan(&id)
	if IsUnique(err, "device_imei_key") {
		return Device{}, fmt.Errorf("IMEI %s: %w", imei, ErrDeviceExists)
	}
	if err != nil {
		return Device{}, fmt.Errorf("add device: %w", err)
	}
	return deviceByID(ctx, tx, id)
}

// LockDevice locks a device's row, as LockAsset does, and gives the device.
func (tx *Tx) LockDevice(ctx context.Context, id simwarden.DeviceID) (Device, error) {
	if err := tx.LockAsset(ctx, Asset{DeviceID: id}); err != nil {
		return Device{}, err
	}
	return deviceByID(ctx, tx, id)
}

// SetDevicePause pauses or resumes the polling of a device, locked before; it says whether that
// changed anything.
func (tx *Tx) SetDevicePause(ctx context.Context, id simwarden.DeviceID, pause bool, by, reason string) (bool, error) {
	query := `UPDATE device SET paused_at = $2, paused_by = $3, paused_reason = $4 WHERE id = $1 AND paused_at IS NULL`
	args := []any{id, tx.At, by, reason}
	if !pause {
		query, args = `UPDATE device SET paused_at = NULL, paused_by = '', paused_reason = '' WHERE id = $1 AND paused_at IS NOT NULL`, args[:1]
	}
	tag, err := tx.Exec(ctx, query, args...)
	if err != nil {
		return false, fmt.Errorf("pause or resume device %d: %w", id, err)
	}
	return tag.RowsAffected() == 1, nil
}

// LockSIMs locks the facts of SIMs in the order of their ids; see LockSIM.
func (tx *Tx) LockSIMs(ctx context.Context, ids []simwarden.SIMID) error {
	return tx.lockSIMs(ctx, ids)
}
