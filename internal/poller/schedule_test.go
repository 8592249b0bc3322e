package poller

import (
	"fmt"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
)

var base = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

func row(id int) store.ScheduleRow {
	return store.ScheduleRow{SIMID: simwarden.SIMID(id), Key: fmt.Sprintf("K%d", id), ICCID: fmt.Sprintf("89999000%010dA", id), State: simwarden.StateActive}
}

func all(due int32) [kinds]int32 { return [kinds]int32{due, never, never} }

func TestScheduleTakesTheEarliestFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSchedule(base)
		want := map[simwarden.SIMID][kinds]int32{}
		for step := range rapid.IntRange(1, 200).Draw(t, "steps") {
			id := rapid.IntRange(1, 30).Draw(t, "sim")
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				due := [kinds]int32{int32(rapid.IntRange(0, 50).Draw(t, "state")), int32(rapid.IntRange(0, 50).Draw(t, "usage")), never}
				s.put(row(id), due)
				want[simwarden.SIMID(id)] = due
			case 1:
				if due, ok := want[simwarden.SIMID(id)]; ok {
					due[0] = int32(rapid.IntRange(0, 50).Draw(t, "state"))
					s.set(simwarden.SIMID(id), 0, due[0])
					want[simwarden.SIMID(id)] = due
				}
			case 2:
				s.remove(simwarden.SIMID(id))
				delete(want, simwarden.SIMID(id))
			case 3:
				earliest := int32(never)
				for _, due := range want {
					earliest = min(earliest, due[0], due[1])
				}
				now := int32(rapid.IntRange(0, 50).Draw(t, "now"))
				got, next, ok := s.take(now)
				if ok != (earliest <= now) || ok && got.due != earliest || !ok && next != earliest {
					t.Fatalf("step %d at %d: took %+v (%v, next %d), the earliest is %d", step, now, got, ok, next, earliest)
				}
				if ok {
					later := got.due + int32(rapid.IntRange(1, 20).Draw(t, "later"))
					s.finish(got, later)
					due := want[got.id]
					due[got.kind] = later
					want[got.id] = due
				}
			}
		}
		if s.size() != len(want) || len(s.due.items) != len(want) {
			t.Fatalf("%d SIMs, %d queued, want %d", s.size(), len(s.due.items), len(want))
		}
	})
}

func TestNewSIMsTakeTurnsWithKnownOnes(t *testing.T) {
	s := newSchedule(base)
	for id := 1; id <= 20; id++ {
		r := row(id)
		r.New = id > 10
		s.put(r, all(1))
	}
	fresh := 0
	for range 10 {
		got, _, ok := s.take(1)
		if !ok {
			t.Fatal("nothing is due")
		}
		if got.id > 10 {
			fresh++
		}
		s.finish(got, never)
	}
	if fresh != 5 {
		t.Errorf("P2: new SIMs had %d of 10 turns while others are due, want half", fresh)
	}
}

func TestScheduleKnowsSIMsByKeyAndICCID(t *testing.T) {
	s := newSchedule(base)
	r := row(1)
	r.Key = ""
	s.put(r, all(1))
	iccid := simwarden.MustParseICCID(r.ICCID)
	if e, ok := s.find("SID1", iccid); !ok || e.id != 1 {
		t.Error("a SIM whose key is not known is not found by its ICCID")
	}
	withCheck := simwarden.MustParseICCID(r.ICCID + "4")
	if e, ok := s.find("", withCheck); !ok || e.id != 1 {
		t.Error("I6: a SIM is not found by its ICCID with a check digit")
	}
	s.rename(1, "SID1")
	if e, ok := s.find("SID1", simwarden.ICCID{}); !ok || e.id != 1 {
		t.Error("a SIM is not found by its key once it is learnt")
	}
	if _, ok := s.find("SID2", simwarden.ICCID{}); ok {
		t.Error("an unknown key finds a SIM")
	}
	s.remove(1)
	if _, ok := s.find("SID1", simwarden.ICCID{}); ok {
		t.Error("a SIM that is gone is found")
	}
}

func TestPausedBusyAndNudgedSIMs(t *testing.T) {
	s := newSchedule(base)
	off := row(1)
	off.Off = true
	s.put(off, all(1))
	if _, next, ok := s.take(100); ok || next != never {
		t.Error("P4: a paused SIM is due")
	}
	s.put(row(2), all(1))
	got, _, ok := s.take(100)
	if !ok || got.id != 2 {
		t.Fatalf("took %+v", got)
	}
	if _, _, ok := s.take(100); ok {
		t.Error("a SIM whose check is under way is taken again")
	}
	s.put(row(2), all(50)) // somebody wants a reading that begins from now on
	s.finish(got, 9000)
	if again, _, ok := s.take(100); !ok || again.due != 50 {
		t.Errorf("a reading that was wanted during a check is due at %+v", again)
	}
	s.dropShard(0)
	if s.size() != 0 || len(s.byHash) != 0 {
		t.Error("a shard that is dropped leaves SIMs behind")
	}
}

func TestASIMInMemoryIsSmall(t *testing.T) {
	if n := unsafe.Sizeof(entry{}); n > 40 {
		t.Errorf("an entry has %d bytes, want 40 at most", n)
	}
}

func BenchmarkScheduleTakeFinish(b *testing.B) {
	s := newSchedule(base)
	for id := range 1_000_000 {
		s.put(row(id+1), all(int32(id)))
	}
	b.ReportAllocs()
	for b.Loop() {
		t, _, _ := s.take(never - 1)
		s.finish(t, t.due+1_000_000)
	}
}
