package api

import (
	"context"
	"errors"
	"fmt"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/plans"
	"github.com/simwarden/simwarden/internal/store"
)

// PoolView is a pool with how it has gone on: its latest closed periods, top-ups and judgements of all its
// members, each newest first.
type PoolView struct {
	store.Pool
	Members     int64                     `json:"members"`
	Periods     []store.PoolPeriod        `json:"periods"`
	TopUps      []store.PoolTopUp         `json:"top_ups"`
	Evaluations []store.AccountEvaluation `json:"evaluations"`
}

const poolHistory = 20

// Pools lists pools in the order in which they were added.
func (s *Service) Pools(ctx context.Context, cursor string, limit int) (Page[store.Pool], error) {
	limit, err := pageLimit(limit)
	if err != nil {
		return Page[store.Pool]{}, err
	}
	after, err := cursorID("pool", cursor)
	if err != nil {
		return Page[store.Pool]{}, err
	}
	rows, err := s.Store.Pools(ctx, simwarden.PoolID(after), limit+1)
	if err != nil {
		return Page[store.Pool]{}, err
	}
	return pageOf(rows, limit, "pool", func(p store.Pool) int64 { return int64(p.ID) }), nil
}

// Pool gives a pool with its history.
func (s *Service) Pool(ctx context.Context, name string) (v PoolView, err error) {
	if v.Pool, err = s.Store.PoolByName(ctx, name); err != nil {
		return v, err
	}
	if v.Members, err = s.Store.CountPoolMembers(ctx, v.ID); err != nil {
		return v, err
	}
	if v.Periods, err = s.Store.PoolPeriods(ctx, v.ID, poolHistory); err != nil {
		return v, err
	}
	if v.TopUps, err = s.Store.PoolTopUps(ctx, v.ID, poolHistory); err != nil {
		return v, err
	}
	v.Evaluations, err = s.Store.PoolEvaluations(ctx, v.ID, poolHistory)
	return v, err
}

// AddPool adds a pool without members, whose first period begins now; plans.ErrPoolInvalid,
// store.ErrPoolExists.
func (s *Service) AddPool(ctx context.Context, p store.Pool, actor string) (store.Pool, error) {
	if !nameShape.MatchString(p.Name) {
		return p, badInput("a pool is named with up to 64 letters, digits, dots, hyphens and underscores, the first a letter or digit")
	}
	if p.Policy == "" {
		p.Policy = simwarden.PoolAll
	}
	if p.Reset == "" {
		p.Reset = simwarden.ResetNone
	}
	if p.Zone == "" {
		p.Zone = "UTC"
	}
	err := s.Store.InTx(ctx, func(tx *store.Tx) (err error) {
		p, err = plans.AddPool(ctx, tx, p, actor)
		return err
	})
	return p, err
}

// ChangePool changes a pool's policy, allowance or cap, and has its members judged by that.
func (s *Service) ChangePool(ctx context.Context, name string, c plans.PoolChange, actor string) (store.Pool, error) {
	p, err := s.Store.PoolByName(ctx, name)
	if err != nil {
		return p, err
	}
	err = s.Store.InTx(ctx, func(tx *store.Tx) (err error) {
		p, err = plans.ChangePool(ctx, tx, p.ID, c, actor)
		return err
	})
	return p, err
}

// PoolToppedUp is what came of a top-up of a pool.
type PoolToppedUp struct {
	Pool     store.Pool      `json:"pool"`
	TopUp    store.PoolTopUp `json:"top_up"`
	Replayed bool            `json:"replayed,omitempty" doc:"It was added before, under the same idempotency key"`
}

// TopUpPool adds data to a pool's running period, once for a key, and has its members judged by that.
func (s *Service) TopUpPool(ctx context.Context, name string, bytes int64, note, key, actor string) (out PoolToppedUp, err error) {
	if err := checkReason(note); err != nil {
		return out, err
	}
	if err := checkKey(key); err != nil {
		return out, err
	}
	p, err := s.Store.PoolByName(ctx, name)
	if err != nil {
		return out, err
	}
	err = s.Store.InTx(ctx, func(tx *store.Tx) (err error) {
		out.Pool, out.TopUp, out.Replayed, err = plans.TopUpPool(ctx, tx, p.ID, store.PoolTopUp{Bytes: bytes, Note: note, Actor: actor}, key)
		return err
	})
	return out, err
}

// PoolMembers lists the members of a pool in the order in which they came in.
func (s *Service) PoolMembers(ctx context.Context, name, cursor string, limit int) (Page[store.PoolMember], error) {
	none := Page[store.PoolMember]{}
	limit, err := pageLimit(limit)
	if err != nil {
		return none, err
	}
	after, err := cursorID("pool_member", cursor)
	if err != nil {
		return none, err
	}
	p, err := s.Store.PoolByName(ctx, name)
	if err != nil {
		return none, err
	}
	rows, err := s.Store.PoolMembers(ctx, p.ID, simwarden.PoolMemberID(after), limit+1)
	if err != nil {
		return none, err
	}
	return pageOf(rows, limit, "pool_member", func(m store.PoolMember) int64 { return int64(m.ID) }), nil
}

// MaxPoolMembers is how many SIMs and devices one request may put into a pool or take out of it.
const MaxPoolMembers = 500

// Candidates are the SIMs and devices to put into a pool or to take out of it.
type Candidates struct {
	SIMs    []string // ICCIDs
	Devices []string // IMEIs
}

// PoolMove is what came of one SIM or device.
type PoolMove struct {
	Name    string `json:"name" doc:"The ICCID or IMEI, as it was given"`
	Moved   bool   `json:"moved"`
	Problem string `json:"problem,omitempty" doc:"Why it was not moved"`
}

// candidate is one of those named, found or not.
type candidate struct {
	asset store.Asset
	move  PoolMove
}

// AddPoolMembers puts SIMs and devices into a pool, all that can be: each has its own answer. A device
// comes in with all its SIMs; a SIM of a device cannot alone, since the device's plans count for it.
// capBytes is their own cap, nil for the pool's.
func (s *Service) AddPoolMembers(ctx context.Context, name string, c Candidates, capBytes *int64, actor string) ([]PoolMove, error) {
	return s.movePool(ctx, name, c, func(tx *store.Tx, p store.Pool, assets []store.Asset) (map[store.Asset]string, error) {
		in, err := plans.JoinPool(ctx, tx, p, assets, capBytes, actor)
		if err != nil {
			return nil, err
		}
		pooled, err := tx.PooledAssets(ctx, assets)
		if err != nil {
			return nil, err
		}
		problems := problemsOf(assets, in, "it has just come into a device; add the device")
		for a := range problems {
			switch pooled[a] {
			case 0:
			case p.ID:
				problems[a] = "it is in this pool already"
			default:
				problems[a] = "it is in another pool; take it out of that first"
			}
		}
		return problems, nil
	})
}

// RemovePoolMembers takes SIMs and devices out of a pool, all that are in it: each has its own answer.
func (s *Service) RemovePoolMembers(ctx context.Context, name string, c Candidates, actor string) ([]PoolMove, error) {
	return s.movePool(ctx, name, c, func(tx *store.Tx, p store.Pool, assets []store.Asset) (map[store.Asset]string, error) {
		out, err := plans.LeavePool(ctx, tx, p, assets, actor)
		return problemsOf(assets, out, "it is not in this pool"), err
	})
}

// problemsOf gives those that were not moved the problem.
func problemsOf(assets, moved []store.Asset, problem string) map[store.Asset]string {
	out := make(map[store.Asset]string, len(assets))
	for _, a := range assets {
		out[a] = problem
	}
	for _, a := range moved {
		delete(out, a)
	}
	return out
}

func (s *Service) movePool(ctx context.Context, name string, c Candidates, move func(*store.Tx, store.Pool, []store.Asset) (map[store.Asset]string, error)) ([]PoolMove, error) {
	if n := len(c.SIMs) + len(c.Devices); n == 0 || n > MaxPoolMembers {
		return nil, badInput("%d SIMs and devices: give 1 to %d at once", n, MaxPoolMembers)
	}
	p, err := s.Store.PoolByName(ctx, name)
	if err != nil {
		return nil, err
	}
	list, err := s.candidates(ctx, c)
	if err != nil {
		return nil, err
	}
	var assets []store.Asset
	for _, x := range list {
		if x.move.Problem == "" {
			assets = append(assets, x.asset)
		}
	}
	var problems map[store.Asset]string
	err = s.Store.InTx(ctx, func(tx *store.Tx) (err error) {
		problems, err = move(tx, p, assets)
		return err
	})
	if err != nil {
		return nil, err
	}
	out := make([]PoolMove, len(list))
	for i, x := range list {
		if x.move.Problem == "" {
			x.move.Problem = problems[x.asset]
		}
		x.move.Moved = x.move.Problem == ""
		out[i] = x.move
	}
	return out, nil
}

// candidates finds those named; what is wrong with one is kept with it.
func (s *Service) candidates(ctx context.Context, c Candidates) ([]candidate, error) {
	list := make([]candidate, 0, len(c.SIMs)+len(c.Devices))
	seen := map[store.Asset]bool{}
	add := func(name string, a store.Asset, err error, otherwise string) error {
		x := candidate{asset: a, move: PoolMove{Name: name, Problem: otherwise}}
		switch {
		case errors.Is(err, store.ErrNotFound), errors.Is(err, ErrBadInput), errors.Is(err, store.ErrAmbiguousICCID):
			x.move.Problem = err.Error()
		case err != nil:
			return err
		case otherwise == "" && seen[a]:
			x.move.Problem = "it is named twice"
		}
		seen[a] = true
		list = append(list, x)
		return nil
	}
	for _, iccid := range c.SIMs {
		sim, err := s.FindSIM(ctx, iccid)
		otherwise := ""
		if sim.DeviceID != 0 {
			otherwise = fmt.Sprintf("it is in device %d, whose plans count for it; name the device", sim.DeviceID)
		}
		if err := add(iccid, store.Asset{SIMID: sim.ID}, err, otherwise); err != nil {
			return nil, err
		}
	}
	for _, imei := range c.Devices {
		d, err := s.FindDevice(ctx, imei)
		if err := add(imei, store.Asset{DeviceID: d.ID}, err, ""); err != nil {
			return nil, err
		}
	}
	return list, nil
}
