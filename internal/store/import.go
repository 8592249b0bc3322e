package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/simwarden/simwarden"
)

// ErrImportRunning says that somebody else's import is under way.
var ErrImportRunning = errors.New("another import is running; wait until it has ended")

// importLock is the key of the advisory lock that imports take; "import" in ASCII.
const importLock = 0x696d706f7274

// LockImport lets one import run at a time, until its transaction ends: two at once could add one
// card in two forms, each unseen by the other (I6). It does not wait: ErrImportRunning.
func (tx *Tx) LockImport(ctx context.Context) error {
	var got bool
	if err := tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock($1)`, int64(importLock)).Scan(&got); err != nil {
		return fmt.Errorf("lock imports: %w", err)
	}
	if !got {
		return ErrImportRunning
	}
	return nil
}

// Devices gives the ids of the devices with the IMEIs, adding those that are new under their form
// with a check digit. The first 14 digits are the equipment (3GPP TS 23.003 section 6): a device
// that is kept in another form of those asked for, or without its check digit, is the same one.
func (tx *Tx) Devices(ctx context.Context, imeis []simwarden.IMEI) (map[simwarden.IMEI]simwarden.DeviceID, error) {
	var forms, fresh []string
	canonical := map[string]string{} // by equipment
	for _, imei := range imeis {
		body := imei.String()[:14]
		forms = append(forms, imei.String())
		if _, seen := canonical[body]; seen {
			continue
		}
		canonical[body] = withCheckDigit(body)
		forms = append(forms, body, canonical[body])
	}
	known, err := tx.devicesByIMEI(ctx, forms)
	if err != nil {
		return nil, err
	}
	for body, form := range canonical {
		if _, there := known[body]; !there {
			fresh = append(fresh, form)
		}
	}
	if len(fresh) > 0 {
		slices.Sort(fresh) // one order for all: no deadlock with who else adds devices
		_, err := tx.Exec(ctx, `
			INSERT INTO device (imei, created_at) SELECT unnest($1::text[]), $2 ON CONFLICT (imei) DO NOTHING`, fresh, tx.At)
		if err != nil {
			return nil, fmt.Errorf("add %d devices: %w", len(fresh), err)
		}
		added, err := tx.devicesByIMEI(ctx, fresh)
		if err != nil {
			return nil, err
		}
		maps.Copy(known, added)
	}
	out := make(map[simwarden.IMEI]simwarden.DeviceID, len(imeis))
	for _, imei := range imeis {
		out[imei] = known[imei.String()[:14]]
	}
	return out, nil
}

// withCheckDigit gives an IMEI of 15 digits for the 14 of an equipment.
func withCheckDigit(body string) string {
	for d := '0'; d <= '9'; d++ {
		if full, err := simwarden.ParseIMEI(body + string(d)); err == nil {
			return full.String()
		}
	}
	return body
}

// devicesByIMEI gives devices by the first 14 digits of their IMEI, the oldest where several share
// them.
func (tx *Tx) devicesByIMEI(ctx context.Context, forms []string) (map[string]simwarden.DeviceID, error) {
	rows, err := tx.Query(ctx, `SELECT id, left(imei, 14) FROM device WHERE imei = ANY($1) ORDER BY id DESC`, forms)
	if err != nil {
		return nil, fmt.Errorf("look for devices: %w", err)
	}
	defer rows.Close()
	out := map[string]simwarden.DeviceID{}
	for rows.Next() {
		var id simwarden.DeviceID
		var body string
		if err := rows.Scan(&id, &body); err != nil {
			return nil, fmt.Errorf("look for devices: %w", err)
		}
		out[body] = id
	}
	return out, rows.Err()
}

// SIMAsset is what plans for a SIM are bought for, and the number under which the SIM is kept.
type SIMAsset struct {
	ICCID string
	Asset Asset
}

// AssetsOfSIMs is AssetOfSIM for many; ids that are not there are left out.
func (tx *Tx) AssetsOfSIMs(ctx context.Context, ids []simwarden.SIMID) (map[simwarden.SIMID]SIMAsset, error) {
	rows, err := tx.Query(ctx, `
		SELECT id, iccid, CASE WHEN device_id IS NULL THEN id ELSE 0 END, coalesce(device_id, 0) FROM sim WHERE id = ANY($1)`, ids)
	if err != nil {
		return nil, fmt.Errorf("assets of %d sims: %w", len(ids), err)
	}
	defer rows.Close()
	out := make(map[simwarden.SIMID]SIMAsset, len(ids))
	for rows.Next() {
		var id simwarden.SIMID
		var a SIMAsset
		if err := rows.Scan(&id, &a.ICCID, &a.Asset.SIMID, &a.Asset.DeviceID); err != nil {
			return nil, fmt.Errorf("assets of %d sims: %w", len(ids), err)
		}
		out[id] = a
	}
	return out, rows.Err()
}

// ExportRef begins the reference under which a subscription is exported that was not imported: its id
// follows.
const ExportRef = "simwarden:"

// ImportedSubscriptions gives what is there already under the references, by reference: what was
// imported with one, and what was exported with one.
func (tx *Tx) ImportedSubscriptions(ctx context.Context, refs []string) (map[string]simwarden.Subscription, error) {
	ids := []int64{}
	for _, ref := range refs {
		if digits, found := strings.CutPrefix(ref, ExportRef); found {
			if id, err := strconv.ParseInt(digits, 10, 64); err == nil {
				ids = append(ids, id)
			}
		}
	}
	rows, err := tx.Query(ctx, `
		SELECT coalesce(b.import_ref, $3 || b.id::text), b.id, coalesce(b.sim_id, 0), coalesce(b.device_id, 0), b.plan_id, p.code
		FROM subscription b JOIN plan p ON p.id = b.plan_id
		WHERE b.import_ref IS NOT NULL AND b.import_ref = ANY($1) OR b.import_ref IS NULL AND b.id = ANY($2)`, refs, ids, ExportRef)
	if err != nil {
		return nil, fmt.Errorf("look for imported subscriptions: %w", err)
	}
	defer rows.Close()
	out := map[string]simwarden.Subscription{}
	for rows.Next() {
		var ref string
		var b simwarden.Subscription
		if err := rows.Scan(&ref, &b.ID, &b.SIMID, &b.DeviceID, &b.PlanID, &b.PlanCode); err != nil {
			return nil, fmt.Errorf("look for imported subscriptions: %w", err)
		}
		out[ref] = b
	}
	return out, rows.Err()
}
