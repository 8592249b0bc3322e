package poller

import (
	"hash/maphash"
	"math"
	"slices"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
)

// tick is the resolution of due times in memory: four bytes a check reach 6.8 years.
const tick = 100 * time.Millisecond

const (
	never  = math.MaxInt32
	kinds  = 3
	noSlot = -1
)

// kindAt is the order of checks in an entry.
var kindAt = [kinds]simwarden.CheckKind{simwarden.CheckState, simwarden.CheckUsage, simwarden.CheckRealName}

func indexOf(kind simwarden.CheckKind) int { return slices.Index(kindAt[:], kind) }

var stateAt = simwarden.States()

func codeOf(s simwarden.State) uint8 { return uint8(max(slices.Index(stateAt, s), 0)) }

// entry is a SIM in memory: 40 bytes, 4 in a queue, and about 40 in the two maps.
type entry struct {
	id      simwarden.SIMID
	hash    uint64       // of what lists call it
	due     [kinds]int32 // ticks after the schedule's base; never: not checked so
	pos     int32        // in its queue; noSlot: in none
	shard   int16
	state   uint8 // index in stateAt
	missing uint8 // single checks in a row at which the carrier did not know it
	flags   uint8
}

const (
	flagUsed   uint8 = 1 << iota // the slot holds a SIM
	flagOff                      // paused or closed: not checked
	flagNew                      // its state was never read
	flagBusy                     // a check is under way
	flagNudged                   // its due times were read anew while busy
	flagAsked                    // somebody waits for a reading, whatever lists will say
)

func (e *entry) is(f uint8) bool { return e.flags&f != 0 }

// next is the earliest of the due times and its kind.
func (e *entry) next() (int32, int) {
	at := 0
	for k := 1; k < kinds; k++ {
		if e.due[k] < e.due[at] {
			at = k
		}
	}
	return e.due[at], at
}

// schedule is the due times of the SIMs of one account that this node keeps, and the way from a
// list's word for a SIM to it. The caller locks.
type schedule struct {
	base    time.Time
	seed    maphash.Seed
	entries []entry
	free    []int32
	byID    map[simwarden.SIMID]int32
	byHash  map[uint64]int32
	due     queue // of SIMs that are known
	fresh   queue // of SIMs never read: they get at most every second turn
	turn    bool
}

func newSchedule(base time.Time) *schedule {
	s := &schedule{base: base, seed: maphash.MakeSeed(), byID: map[simwarden.SIMID]int32{}, byHash: map[uint64]int32{}}
	s.due.of, s.fresh.of = s, s
	return s
}

// ticks rounds up: a check is never made before its time.
func (s *schedule) ticks(t time.Time) int32 {
	d := t.Sub(s.base)
	n := int64(d / tick)
	if d%tick > 0 {
		n++
	}
	return int32(min(max(n, math.MinInt32), never-1))
}

// floor rounds down: what is due by then.
func (s *schedule) floor(t time.Time) int32 {
	return int32(min(max(int64(t.Sub(s.base)/tick), math.MinInt32), never-1))
}

func (s *schedule) at(ticks int32) time.Time { return s.base.Add(time.Duration(ticks) * tick) }

// hashes of a carrier's key and of an ICCID lie apart. Two SIMs whose 64 bits meet would be taken
// for one another: with ten million SIMs in memory that happens once in about 400,000 processes, and
// then for one pair.
func (s *schedule) hashKey(key string) uint64 { return maphash.String(s.seed, key) }

func (s *schedule) hashICCID(iccid string) uint64 {
	return maphash.String(s.seed, iccid) ^ 0x9e3779b97f4a7c15
}

func (s *schedule) hashRow(key, iccid string) uint64 {
	if key != "" {
		return s.hashKey(key)
	}
	return s.hashICCID(iccid)
}

// put adds a SIM or takes its row in anew; due are its due times.
func (s *schedule) put(r store.ScheduleRow, due [kinds]int32) {
	slot, known := s.byID[r.SIMID]
	if !known {
		slot = s.slot()
		s.byID[r.SIMID] = slot
		s.entries[slot] = entry{id: r.SIMID, pos: noSlot, flags: flagUsed}
	}
	e := &s.entries[slot]
	s.out(slot)
	if known {
		s.unhash(slot)
		if e.is(flagBusy) {
			e.flags |= flagNudged
		}
	}
	e.shard, e.state, e.due, e.hash = r.Shard, codeOf(r.State), due, s.hashRow(r.Key, r.ICCID)
	e.flags &^= flagOff | flagNew
	if r.Off {
		e.flags |= flagOff
	}
	if r.New {
		e.flags |= flagNew
	}
	s.byHash[e.hash] = slot
	s.in(slot)
}

func (s *schedule) slot() int32 {
	if n := len(s.free); n > 0 {
		slot := s.free[n-1]
		s.free = s.free[:n-1]
		return slot
	}
	s.entries = append(s.entries, entry{})
	return int32(len(s.entries) - 1)
}

func (s *schedule) unhash(slot int32) {
	if h := s.entries[slot].hash; s.byHash[h] == slot {
		delete(s.byHash, h)
	}
}

// rename keeps the carrier's own name of a SIM, once it is learnt.
func (s *schedule) rename(id simwarden.SIMID, key string) {
	if slot, ok := s.byID[id]; ok {
		s.unhash(slot)
		s.entries[slot].hash = s.hashKey(key)
		s.byHash[s.entries[slot].hash] = slot
	}
}

// ask marks that somebody waits for a reading of the SIM.
func (s *schedule) ask(id simwarden.SIMID) {
	if slot, ok := s.byID[id]; ok {
		s.entries[slot].flags |= flagAsked
	}
}

// remove forgets a SIM.
func (s *schedule) remove(id simwarden.SIMID) {
	slot, ok := s.byID[id]
	if !ok {
		return
	}
	s.out(slot)
	s.unhash(slot)
	delete(s.byID, id)
	s.entries[slot] = entry{pos: noSlot}
	s.free = append(s.free, slot)
}

// dropShard forgets the SIMs of a shard.
func (s *schedule) dropShard(shard int16) {
	for i := range s.entries {
		if e := &s.entries[i]; e.is(flagUsed) && e.shard == shard {
			s.remove(e.id)
		}
	}
}

// size is how many SIMs there are.
func (s *schedule) size() int { return len(s.byID) }

// find gives the SIM that a list speaks of: by the carrier's key, else by its ICCID in any of its
// forms.
func (s *schedule) find(key string, iccid simwarden.ICCID) (*entry, bool) {
	if key != "" {
		if slot, ok := s.byHash[s.hashKey(key)]; ok {
			return &s.entries[slot], true
		}
	}
	if iccid.IsZero() {
		return nil, false
	}
	if slot, ok := s.byHash[s.hashICCID(iccid.String())]; ok {
		return &s.entries[slot], true
	}
	for _, other := range iccid.Alternates() {
		if slot, ok := s.byHash[s.hashICCID(other.String())]; ok {
			return &s.entries[slot], true
		}
	}
	return nil, false
}

// lookup gives a SIM by its id.
func (s *schedule) lookup(id simwarden.SIMID) (*entry, bool) {
	slot, ok := s.byID[id]
	if !ok {
		return nil, false
	}
	return &s.entries[slot], true
}

// set moves one due time of a SIM.
func (s *schedule) set(id simwarden.SIMID, kind int, due int32) {
	slot, ok := s.byID[id]
	if !ok {
		return
	}
	s.out(slot)
	s.entries[slot].due[kind] = due
	s.in(slot)
}

// task is a check that is due.
type task struct {
	id    simwarden.SIMID
	kind  int
	shard int16
	state simwarden.State
	due   int32
	asked bool
}

// take gives the next check that is due and marks its SIM as busy; ok is false where none is, and
// next is then when one will be, or never. Where both known and new SIMs are due they take turns.
func (s *schedule) take(now int32) (t task, next int32, ok bool) {
	known, fresh := s.due.head(), s.fresh.head()
	q := &s.due
	switch {
	case fresh <= now && (known > now || s.turn):
		q, s.turn = &s.fresh, false
	case known <= now:
		s.turn = true
	default:
		return task{}, min(known, fresh), false
	}
	slot := q.items[0]
	e := &s.entries[slot]
	due, kind := e.next()
	s.out(slot)
	e.flags = e.flags&^flagNudged | flagBusy
	return task{id: e.id, kind: kind, shard: e.shard, state: stateAt[e.state], due: due, asked: e.is(flagAsked)}, 0, true
}

// finish ends a check and sets when the next one of its kind is due, unless the SIM's due times were
// read anew meanwhile: somebody wants a reading that began later.
func (s *schedule) finish(t task, due int32) {
	slot, ok := s.byID[t.id]
	if !ok {
		return
	}
	e := &s.entries[slot]
	s.out(slot)
	if !e.is(flagNudged) {
		e.due[t.kind] = due
		// Whoever asked may have asked for several kinds at once: the others have yet to be read.
		if next, _ := e.next(); next > t.due {
			e.flags &^= flagAsked
		}
	}
	e.flags &^= flagBusy | flagNudged
	s.in(slot)
}

// in puts a SIM into its queue where it is to be checked at all.
func (s *schedule) in(slot int32) {
	e := &s.entries[slot]
	if due, _ := e.next(); e.is(flagOff|flagBusy) || due == never {
		return
	}
	s.queueOf(e).push(slot)
}

func (s *schedule) out(slot int32) {
	if e := &s.entries[slot]; e.pos != noSlot {
		s.queueOf(e).remove(e.pos)
	}
}

func (s *schedule) queueOf(e *entry) *queue {
	if e.is(flagNew) {
		return &s.fresh
	}
	return &s.due
}

// known notes that a SIM's state was read: it is not new any more.
func (s *schedule) known(id simwarden.SIMID, state simwarden.State) {
	slot, ok := s.byID[id]
	if !ok {
		return
	}
	e := &s.entries[slot]
	if e.is(flagNew) {
		s.out(slot)
		e.flags &^= flagNew
		s.in(slot)
	}
	e.state, e.missing = codeOf(state), 0
}
