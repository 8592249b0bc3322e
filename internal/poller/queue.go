package poller

// queue is a binary heap of slots by earliest due time. Entries know their place, so that one may
// move or leave in O(log n).
type queue struct {
	of    *schedule
	items []int32
}

// head is the earliest due time, never where the queue is empty.
func (q *queue) head() int32 {
	if len(q.items) == 0 {
		return never
	}
	return q.key(0)
}

func (q *queue) key(i int) int32 {
	due, _ := q.of.entries[q.items[i]].next()
	return due
}

func (q *queue) push(slot int32) {
	q.items = append(q.items, slot)
	q.of.entries[slot].pos = int32(len(q.items) - 1)
	q.up(len(q.items) - 1)
}

func (q *queue) remove(pos int32) {
	i, last := int(pos), len(q.items)-1
	q.of.entries[q.items[i]].pos = noSlot
	if i != last {
		q.items[i] = q.items[last]
		q.of.entries[q.items[i]].pos = pos
	}
	q.items = q.items[:last]
	if i < last && !q.down(i) {
		q.up(i)
	}
}

func (q *queue) swap(i, j int) {
	q.items[i], q.items[j] = q.items[j], q.items[i]
	q.of.entries[q.items[i]].pos, q.of.entries[q.items[j]].pos = int32(i), int32(j)
}

func (q *queue) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if q.key(parent) <= q.key(i) {
			return
		}
		q.swap(i, parent)
		i = parent
	}
}

func (q *queue) down(i int) bool {
	from := i
	for {
		child := 2*i + 1
		if child >= len(q.items) {
			break
		}
		if right := child + 1; right < len(q.items) && q.key(right) < q.key(child) {
			child = right
		}
		if q.key(i) <= q.key(child) {
			break
		}
		q.swap(i, child)
		i = child
	}
	return i > from
}
