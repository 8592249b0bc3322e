package usage_test

import (
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/internal/usage"
)

// share adds a pool with the assets in it.
func (r *rig) share(t fatal, p store.Pool, assets ...store.Asset) store.Pool {
	t.Helper()
	if p.Zone = "UTC"; p.Reset == "" {
		p.Reset = simwarden.ResetNone
	}
	if p.Policy == "" {
		p.Policy = simwarden.PoolAll
	}
	r.tx(t, func(tx *store.Tx) (err error) {
		p.CreatedAt = tx.At
		if p.NextResetAt, err = usage.NextPoolReset(p, tx.At); err != nil {
			return err
		}
		p, err = tx.AddPool(r.ctx, p)
		return err
	})
	r.join(t, p, assets...)
	return p
}

func (r *rig) join(t fatal, p store.Pool, assets ...store.Asset) {
	t.Helper()
	r.tx(t, func(tx *store.Tx) error {
		in, err := tx.JoinPool(r.ctx, p.ID, assets, nil, "cli:test")
		if err == nil && len(in) != len(assets) {
			t.Fatalf("%d of %d joined", len(in), len(assets))
		}
		return err
	})
}

func (r *rig) leave(t fatal, p store.Pool, assets ...store.Asset) {
	t.Helper()
	r.tx(t, func(tx *store.Tx) error {
		_, err := tx.LeavePool(r.ctx, p.ID, assets, "cli:test")
		return err
	})
}

// uses books a reading of so many bytes in all, true at the clock's instant or back from it.
func (r *rig) uses(t fatal, id simwarden.SIMID, counter int64, back time.Duration) usage.Booked {
	t.Helper()
	now := r.clock.Now()
	return r.book(t, store.Observed{SIMID: id, Reading: simwarden.Reading{ReadAt: now,
		Usage: &simwarden.UsageReading{CounterBytes: counter, TrueAt: now.Add(-back)}}})
}

func (r *rig) poolNow(t fatal, name string) store.Pool {
	t.Helper()
	p, err := r.store.PoolByName(r.ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (r *rig) evaluations(t fatal, p store.Pool) (scenes []simwarden.Scene) {
	t.Helper()
	list, err := r.store.PoolEvaluations(r.ctx, p.ID, 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		scenes = append(scenes, e.Scene)
	}
	return scenes
}

func TestL6MembersDrawFromTheirPoolWhatTheirOwnHasNoRoomFor(t *testing.T) {
	r := newRig(t)
	one, two, alone := r.sim(t, 0), r.sim(t, 0), r.sim(t, 0)
	var subs []simwarden.SubscriptionID
	for _, id := range []simwarden.SIMID{one, two, alone} {
		subs = append(subs, r.subscribe(t, store.Asset{SIMID: id}, "main", noon.AddDate(0, 0, -1), noon.AddDate(0, 0, 29)))
		r.uses(t, id, 0, 0)
	}
	p := r.share(t, store.Pool{Name: "meters", AllowanceBytes: 500}, store.Asset{SIMID: one}, store.Asset{SIMID: two})
	r.clock.Advance(time.Minute)
	r.uses(t, one, 1200, 0)
	r.uses(t, two, 1299, 0)
	r.uses(t, alone, 1200, 0)
	for i, want := range []int64{1000, 1000, 1200} {
		if b := r.subscription(t, subs[i]); b.UsedBytes != want {
			t.Errorf("subscription %d bears %d, want %d", i, b.UsedBytes, want)
		}
	}
	if p = r.poolNow(t, "meters"); p.UsedBytes != 499 || p.Exhausted() || len(r.evaluations(t, p)) != 0 {
		t.Errorf("the pool has %d used, evaluations %v", p.UsedBytes, r.evaluations(t, p))
	}
	r.clock.Advance(time.Minute)
	r.uses(t, one, 1201, 0)
	r.uses(t, one, 1250, 0)
	if p = r.poolNow(t, "meters"); p.UsedBytes != 549 || p.ExhaustedAt.IsZero() {
		t.Errorf("the pool has %d used, exhausted at %s", p.UsedBytes, p.ExhaustedAt)
	}
	if got := r.evaluations(t, p); len(got) != 1 || got[0] != simwarden.SceneUsageCheck {
		t.Errorf("the pool's members are judged %v, want once, with scene usage_check", got)
	}
	members, err := r.store.PoolMembers(r.ctx, p.ID, 0, 10)
	if err != nil || len(members) != 2 || members[0].DrawnBytes != 250 || members[1].DrawnBytes != 299 {
		t.Errorf("the members have drawn %+v (%v)", members, err)
	}
}

func TestL6AResetFillsThePoolAndLateUsageGoesToItsOwnPeriod(t *testing.T) {
	r := newRig(t)
	id := r.sim(t, 0)
	a := store.Asset{SIMID: id}
	r.share(t, store.Pool{Name: "meters", AllowanceBytes: 500, Reset: simwarden.ResetCycle, ResetDays: 1}, a)
	r.uses(t, id, 0, 0)
	r.clock.Advance(23 * time.Hour)
	r.uses(t, id, 600, 0)
	// Nobody has swept: what is used after the reset finds the next period all the same.
	r.clock.Advance(2 * time.Hour)
	r.uses(t, id, 700, 0)
	p := r.poolNow(t, "meters")
	if p.Period != 2 || p.UsedBytes != 100 || !p.PeriodStartAt.Equal(noon.AddDate(0, 0, 1)) || !p.NextResetAt.Equal(noon.AddDate(0, 0, 2)) {
		t.Fatalf("the pool is %+v", p)
	}
	if got := r.evaluations(t, p); len(got) != 2 || got[0] != simwarden.ScenePlanReset {
		t.Errorf("the members are judged %v, want for the reset last", got)
	}
	b := r.uses(t, id, 750, 90*time.Minute) // true before the reset, and older than what is known
	if b.DeltaBytes != 50 {
		t.Fatalf("booked %+v", b)
	}
	periods, err := r.store.PoolPeriods(r.ctx, p.ID, 10)
	if err != nil || len(periods) != 1 {
		t.Fatalf("closed periods %+v (%v)", periods, err)
	}
	used := r.poolNow(t, "meters").UsedBytes
	if periods[0].UsedBytes+used != 750 || periods[0].AllowanceBytes != 500 || !periods[0].EndAt.Equal(p.PeriodStartAt) {
		t.Errorf("periods have %d and %d of 750", periods[0].UsedBytes, used)
	}
	// A week goes by: each period is closed with its own bounds.
	r.clock.Advance(7 * 24 * time.Hour)
	r.uses(t, id, 760, 0)
	if p = r.poolNow(t, "meters"); p.Period != 9 || p.UsedBytes != 10 {
		t.Errorf("after a week the pool is in period %d with %d used", p.Period, p.UsedBytes)
	}
}

func TestC10APoolIsNotFilledAgainWhileTheTimeIsNotToBeTrusted(t *testing.T) {
	r := newRig(t)
	id := r.sim(t, 0)
	r.share(t, store.Pool{Name: "meters", AllowanceBytes: 500, Reset: simwarden.ResetCycle, ResetDays: 1}, store.Asset{SIMID: id})
	r.uses(t, id, 0, 0)
	r.uses(t, id, 500, 0)
	if _, err := r.pool.Exec(r.ctx, `INSERT INTO guard (kind, because, since_at) VALUES ('clock', 'a test', $1)`, noon); err != nil {
		t.Fatal(err)
	}
	r.clock.Advance(25 * time.Hour) // of the node that books
	r.uses(t, id, 570, 0)
	if p := r.poolNow(t, "meters"); p.Period != 1 || p.UsedBytes != 570 {
		t.Fatalf("the pool is in period %d with %d used, want the first still, with 570", p.Period, p.UsedBytes)
	}
	if _, err := r.pool.Exec(r.ctx, `UPDATE guard SET released_at = $1`, noon); err != nil {
		t.Fatal(err)
	}
	r.uses(t, id, 580, 0)
	if p := r.poolNow(t, "meters"); p.Period != 2 || p.UsedBytes != 10 {
		t.Errorf("after the release the pool is in period %d with %d used, want the second with 10", p.Period, p.UsedBytes)
	}
}

func TestL6WhoHasLeftDrawsNoMoreButWhatItUsedBefore(t *testing.T) {
	r := newRig(t)
	id := r.sim(t, 0)
	a := store.Asset{SIMID: id}
	r.uses(t, id, 0, 0)
	first, second := r.share(t, store.Pool{Name: "first", AllowanceBytes: 500}, a), r.share(t, store.Pool{Name: "second", AllowanceBytes: 500})
	r.clock.Advance(time.Hour)
	r.leave(t, first, a)
	r.join(t, second, a)
	r.clock.Advance(time.Hour)
	r.uses(t, id, 10, 90*time.Minute)
	r.uses(t, id, 30, 0)
	r.leave(t, second, a)
	r.clock.Advance(time.Hour)
	r.uses(t, id, 70, 0)
	if x, y := r.poolNow(t, "first").UsedBytes, r.poolNow(t, "second").UsedBytes; x != 10 || y != 20 {
		t.Errorf("the pools have %d and %d used, want 10 and 20; 40 are nobody's", x, y)
	}
}
