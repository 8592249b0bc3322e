package poller

import "testing"

func TestE11WhoeverAsksForSeveralKindsGetsThemAll(t *testing.T) {
	s := newSchedule(base)
	s.put(row(1), [kinds]int32{5, 5, never})
	s.ask(1)
	for kind := range 2 {
		task, _, ok := s.take(5)
		if !ok || task.kind != kind || !task.asked {
			t.Fatalf("check %d is %+v (%v): what was asked for at once is read, whatever lists will say", kind, task, ok)
		}
		s.finish(task, 100)
	}
	if task, _, ok := s.take(100); !ok || task.asked {
		t.Errorf("the next check is %+v (%v): nobody has asked for it", task, ok)
	}
}
