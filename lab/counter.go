package lab

import (
	"cmp"
	"slices"
	"sync"

	"github.com/simwarden/simwarden"
)

// Counter is how many requests of an operation an account has had, with one class of answer.
type Counter struct {
	Account         string              `json:"account"`
	Operation       simwarden.Operation `json:"operation"`
	Answer          AnswerClass         `json:"answer"`
	Requests        int                 `json:"requests"`
	LimitViolations int                 `json:"limit_violations"`
}

type counterKey struct {
	account   string
	operation simwarden.Operation
	answer    AnswerClass
}

type counters struct {
	mu         sync.Mutex
	requests   map[counterKey]int
	violations map[counterKey]int
}

func (c *counters) count(line *LogLine) {
	key := counterKey{line.Account, line.Operation, line.Answer}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests[key]++
	if line.LimitViolation != "" {
		c.violations[key]++
	}
}

// Counters counts the requests that have ended, by account, operation and class of answer.
func (w *World) Counters() []Counter {
	c := &w.counters
	c.mu.Lock()
	out := make([]Counter, 0, len(c.requests))
	for key, n := range c.requests {
		out = append(out, Counter{key.account, key.operation, key.answer, n, c.violations[key]})
	}
	c.mu.Unlock()
	slices.SortFunc(out, func(a, b Counter) int {
		return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.Operation, b.Operation), cmp.Compare(a.Answer, b.Answer))
	})
	return out
}

// LimitViolations is how many requests exceeded a limit, of all accounts.
func (w *World) LimitViolations() int {
	w.counters.mu.Lock()
	defer w.counters.mu.Unlock()
	n := 0
	for _, v := range w.counters.violations {
		n += v
	}
	return n
}
