package store_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/internal/store/storetest"
)

// polled is an account with so many SIMs that are read, judged and settled, and its shards held.
func polled(t testing.TB, s *store.Store, exec func(sql string, args ...any), n int) (store.Account, []simwarden.SIMID, store.PollFence, time.Time) {
	t.Helper()
	var account store.Account
	var ids []simwarden.SIMID
	at := s.Now()
	err := s.InTx(t.Context(), func(tx *store.Tx) (err error) {
		if account, err = tx.AddAccount(t.Context(), store.Account{Name: "first", Driver: "none"}); err != nil {
			return err
		}
		sims := make([]store.NewSIM, n)
		for i := range sims {
			text := fmt.Sprintf("89999000%010dA", i)
			sims[i] = store.NewSIM{ICCID: simwarden.MustParseICCID(text), Raw: text}
		}
		ids, err = tx.AddSIMs(t.Context(), account, sims, 0)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	exec(`UPDATE poll_state SET settled = true, state = 'active', state_read_at = $1, usage_counter_bytes = 7, usage_read_at = $1, usage_true_at = $1`, at)
	exec(`VACUUM FULL poll_state`) // free room on every page, as the fillfactor says
	held, err := s.TakeShards(t.Context(), "node-1", 100, time.Minute)
	if err != nil || len(held) != account.Shards {
		t.Fatalf("took %d shards of %d: %v", len(held), account.Shards, err)
	}
	fence := store.PollFence{AccountID: account.ID, Holder: "node-1", Epochs: map[int16]int64{}}
	for _, h := range held {
		fence.Epochs[h.Shard] = h.Epoch
	}
	return account, ids, fence, at
}

func stateRows(ids []simwarden.SIMID, account store.Account, at time.Time, state simwarden.State) []store.PollRow {
	rows := make([]store.PollRow, len(ids))
	for i, id := range ids {
		rows[i] = store.PollRow{SIMID: id, Shard: int16(int(id) % account.Shards), Kind: simwarden.CheckState, DueAt: at.Add(time.Hour),
			Reading: simwarden.Reading{ReadAt: at, State: &simwarden.StateReading{State: state, Extended: simwarden.ExtendedNone}}}
	}
	return rows
}

// The first rounds over whole pages move some rows, until each page has room for all its rows twice.
func TestTouchIsHOT(t *testing.T) {
	s, pool := open(t)
	account, ids, fence, at := polled(t, s, func(sql string, args ...any) {
		if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}, 1000)
	statistics := func() (updates, hot int64) {
		updates, hot, err := s.PollTable(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return updates, hot
	}
	const warm, rounds = 10, 20
	var updates, hot int64
	for i := range warm + rounds {
		if i == warm {
			updates, hot = settled(t, statistics, warm*int64(len(ids)))
		}
		done, err := s.Touch(t.Context(), fence, simwarden.CheckState, stateRows(ids, account, at.Add(time.Duration(i+1)*time.Second), simwarden.StateActive))
		if err != nil {
			t.Fatal(err)
		}
		if len(done.Missed) != 0 {
			t.Fatalf("missed %d of %d SIMs", len(done.Missed), len(ids))
		}
	}
	u, h := settled(t, statistics, (warm+rounds)*int64(len(ids)))
	if u, h := u-updates, h-hot; h != u {
		t.Errorf("%d of %d updates of poll_state are HOT, want all", h, u)
	}
}

// settled waits until the statistics tell of so many updates: backends report when they are idle
// for a second, or end.
func settled(t *testing.T, statistics func() (updates, hot int64), want int64) (updates, hot int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if updates, hot = statistics(); updates >= want {
			return updates, hot
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("the statistics tell of %d updates, not of %d", updates, want)
		}
	}
}

func TestTouchLeavesWhatIsNew(t *testing.T) {
	s, pool := open(t)
	account, ids, fence, at := polled(t, s, func(sql string, args ...any) {
		if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}, 8)
	lease, ok, err := s.TakeLease(t.Context(), "list:first", "node-1", time.Minute)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	later := at.Add(time.Minute)
	usage := func(counter int64, period, read time.Time) []store.PollRow {
		rows := stateRows(ids[:1], account, read, simwarden.StateActive)
		rows[0].Kind, rows[0].Reading.State = simwarden.CheckUsage, nil
		rows[0].Reading.Usage = &simwarden.UsageReading{CounterBytes: counter, PeriodStartAt: period}
		return rows
	}
	otherEpoch := fence
	otherEpoch.Epochs = map[int16]int64{0: 99, 1: 99, 2: 99, 3: 99}
	other := fence
	other.Holder = "node-2"
	byList := store.PollFence{AccountID: account.ID, Holder: "node-1", Lease: &lease}
	lost := byList
	lost.Lease = &store.Lease{Name: lease.Name, Holder: "node-1", Epoch: lease.Epoch + 1}
	if _, err := pool.Exec(t.Context(), `UPDATE poll_state SET settled = false WHERE sim_id = $1`, ids[7]); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name    string
		fence   store.PollFence
		rows    []store.PollRow
		touched int
		fenced  bool
	}{
		{"another state is news", fence, stateRows(ids[:7], account, later, simwarden.StateSuspended), 0, true},
		{"an older reading is not written (F31)", fence, stateRows(ids[:7], account, at.Add(-time.Minute), simwarden.StateActive), 0, true},
		{"a SIM that is not settled is judged", fence, stateRows(ids[7:], account, later, simwarden.StateActive), 0, true},
		{"another counter is news", fence, usage(8, time.Time{}, later), 0, true},
		{"another period is news", fence, usage(7, at, later), 0, true},
		{"an epoch that is over writes nothing (F3)", otherEpoch, stateRows(ids[:7], account, later, simwarden.StateActive), 0, false},
		{"another holder writes nothing", other, stateRows(ids[:7], account, later, simwarden.StateActive), 0, false},
		{"a lost lease of a list writes nothing", lost, stateRows(ids[:7], account, later, simwarden.StateActive), 0, false},
		{"the same counter is touched", fence, usage(7, time.Time{}, later), 1, true},
		{"the same states are touched", fence, stateRows(ids[:7], account, later, simwarden.StateActive), 7, true},
		{"the same states are touched under a list's lease", byList, stateRows(ids[:7], account, later.Add(time.Second), simwarden.StateActive), 7, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			done, err := s.Touch(t.Context(), tt.fence, tt.rows[0].Kind, tt.rows)
			if err != nil {
				t.Fatal(err)
			}
			if touched := len(tt.rows) - len(done.Missed); touched != tt.touched || done.Fenced != tt.fenced {
				t.Errorf("touched %d SIMs, fence %v; want %d, %v", touched, done.Fenced, tt.touched, tt.fenced)
			}
		})
	}
}

// However the ids lie and whatever else is in the batch, just the SIMs that were read get the instants.
func TestTouchWritesTheGivenRowsAlone(t *testing.T) {
	s, pool := open(t)
	account, ids, fence, at := polled(t, s, func(sql string, args ...any) {
		if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}, 100)
	news := map[int]bool{5: true} // that SIM is read in another state
	tests := []struct {
		name string
		read []int
	}{
		{"one after the other", []int{2, 3, 4}},
		{"with gaps", []int{6, 8, 9, 11}},
		{"not in order", []int{14, 12, 13}},
		{"far apart", []int{20, 60, 99}},
		{"one SIM", []int{30}},
		{"one with news amid others", []int{4, 5, 6}},
		{"one with news far from others", []int{1, 5, 70}},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			read := at.Add(time.Duration(i+1) * time.Minute)
			var rows []store.PollRow
			want := map[simwarden.SIMID]bool{}
			for n, index := range tt.read {
				state := simwarden.StateActive
				if news[index] {
					state = simwarden.StateSuspended
				} else {
					want[ids[index]] = true
				}
				row := stateRows(ids[index:index+1], account, read, state)[0]
				row.DueAt = read.Add(time.Duration(n+1) * time.Hour) // each its own
				rows = append(rows, row)
			}
			done, err := s.Touch(t.Context(), fence, simwarden.CheckState, rows)
			if err != nil {
				t.Fatal(err)
			}
			for n, r := range rows {
				sim, err := s.SIM(t.Context(), r.SIMID)
				if err != nil {
					t.Fatal(err)
				}
				wrote := sim.StateReadAt.Equal(read) && sim.StateDueAt.Equal(rows[n].DueAt)
				if wrote != want[r.SIMID] || done.Missed[r.SIMID] == want[r.SIMID] {
					t.Errorf("SIM %d: written %v, missed %v, want it written: %v", tt.read[n], wrote, done.Missed[r.SIMID], want[r.SIMID])
				}
			}
			var moved int
			if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM poll_state WHERE state_read_at = $1`, read).Scan(&moved); err != nil {
				t.Fatal(err)
			}
			if moved != len(want) {
				t.Errorf("%d SIMs were written, want %d", moved, len(want))
			}
		})
	}
}

func TestPollShardsHaveOneHolder(t *testing.T) {
	s, pool := open(t)
	account, ids, fence, _ := polled(t, s, func(sql string, args ...any) {
		if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}, 8)
	if got, err := s.TakeShards(t.Context(), "node-2", 100, time.Minute); err != nil || len(got) != 0 {
		t.Fatalf("another node took %d shards that are held: %v", len(got), err)
	}
	held := make([]store.PollShard, 0, len(fence.Epochs))
	for shard, epoch := range fence.Epochs {
		held = append(held, store.PollShard{AccountID: account.ID, Shard: shard, Epoch: epoch})
	}
	if err := s.GiveShards(t.Context(), "node-1", held[:1]); err != nil {
		t.Fatal(err)
	}
	got, err := s.TakeShards(t.Context(), "node-2", 100, time.Minute)
	if err != nil || len(got) != 1 || got[0].Epoch != held[0].Epoch+1 {
		t.Fatalf("took %+v, want the one that was given back under a new epoch: %v", got, err)
	}
	still, err := s.RenewShards(t.Context(), "node-1", held, time.Minute)
	if err != nil || len(still) != len(held)-1 {
		t.Errorf("renewed %d shards of %d, want all but the one that is another's: %v", len(still), len(held), err)
	}
	nudges, err := s.TakeNudges(t.Context(), still, 100)
	if err != nil || len(nudges) != 6 {
		t.Errorf("took %d nudges of the held shards, want 6 of %d: %v", len(nudges), len(ids), err)
	}
	if n, err := s.LiveLeases(t.Context(), "poller:"); err != nil || n != 0 {
		t.Errorf("%d nodes are seen, want none: %v", n, err)
	}
}

func BenchmarkTouch(b *testing.B) {
	s, exec := openBench(b)
	account, ids, fence, at := polled(b, s, exec, 100_000)
	const batch = 1000
	i := 0
	for b.Loop() {
		from := i % (len(ids) / batch) * batch
		i++
		done, err := s.Touch(b.Context(), fence, simwarden.CheckState, stateRows(ids[from:from+batch], account, at.Add(time.Duration(i)*time.Millisecond), simwarden.StateActive))
		if err != nil || len(done.Missed) != 0 {
			b.Fatal(len(done.Missed), err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/batch, "ns/poll")
}

func openBench(b *testing.B) (*store.Store, func(sql string, args ...any)) {
	b.Helper()
	url := storetest.URL(b, store.Migrate)
	s, err := store.Open(b.Context(), store.Options{URL: url})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.Close)
	pool, err := pgxpool.New(b.Context(), url)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	return s, func(sql string, args ...any) {
		if _, err := pool.Exec(b.Context(), sql, args...); err != nil {
			b.Fatal(err)
		}
	}
}

func TestTouchOfARealNameThatIsKnown(t *testing.T) {
	s, pool := open(t)
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	account, ids, fence, at := polled(t, s, exec, 4)
	exec(`UPDATE poll_state SET realname = 'verified', realname_read_at = $1`, at)
	exec(`UPDATE poll_state SET realname_odd = '9' WHERE sim_id = $1`, ids[2])
	rows := make([]store.PollRow, 3)
	for i, status := range []simwarden.RealName{simwarden.RealNameVerified, simwarden.RealNameUnverified, simwarden.RealNameVerified} {
		rows[i] = store.PollRow{SIMID: ids[i], Shard: int16(int(ids[i]) % account.Shards), Kind: simwarden.CheckRealName, DueAt: at.Add(time.Hour),
			Reading: simwarden.Reading{ReadAt: at.Add(time.Minute), RealName: &simwarden.RealNameReading{Status: status}}}
	}
	got, err := s.Touch(t.Context(), fence, simwarden.CheckRealName, rows)
	if err != nil {
		t.Fatal(err)
	}
	if got.Missed[ids[0]] || !got.Missed[ids[1]] || !got.Missed[ids[2]] {
		t.Errorf("missed are %v, want the one that is not as it was, and the one whose last answer was not understood", got.Missed)
	}
	sim, err := s.SIM(t.Context(), ids[0])
	if err != nil || !sim.RealNameReadAt.Equal(at.Add(time.Minute)) || !sim.RealNameDueAt.Equal(at.Add(time.Hour)) {
		t.Errorf("read at %s, due at %s, %v", sim.RealNameReadAt, sim.RealNameDueAt, err)
	}
}
