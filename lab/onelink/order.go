package onelink

import (
	"fmt"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/lab"
)

// order is one change that was taken.
type order struct {
	iccid, to string
	at        time.Time
	// done: the answer already said so, truly or not.
	done bool
}

// job is a batch of changes.
type job struct{ rows []jobRow }

type jobRow struct {
	msisdn string
	order  order
	code   string // why it was not taken; empty: it was
}

// The words of an order's status.
const (
	orderRunning   = "inProgress"
	orderDone      = "completed"
	orderCancelled = "cancelled"
)

// take keeps an order and gives its number.
func (s *session) take(o order) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	number := s.number()
	if len(s.orders) >= maxOrders {
		clear(s.orders)
	}
	s.orders[number] = o
	return number
}

// number needs mu held.
func (s *session) number() string {
	s.order++
	return fmt.Sprintf("50%05d%013d", s.seed%100_000, s.order)
}

// status says how far an order is: a change that a later one or a person at the portal has
// replaced is cancelled.
func (s *session) status(o order) string {
	if o.done {
		return orderDone
	}
	truth, ok := s.account.SIM(o.iccid)
	switch {
	case !ok:
		return orderCancelled
	case truth.PendingRaw == o.to:
		return orderRunning
	}
	for _, change := range truth.Changes {
		if change.Raw == o.to && change.By != "portal" && !change.At.Before(o.at) {
			return orderDone
		}
	}
	return orderCancelled
}

// batch carries a batch of changes out, each by the rules of a single one.
func (s *session) batch(c *call, now time.Time) string {
	var j job
	for _, msisdn := range c.many {
		row := jobRow{msisdn: msisdn}
		iccid, ok := s.account.ICCIDOf(msisdn)
		if !ok {
			row.code = problems[lab.ProblemNotFound].code
			j.rows = append(j.rows, row)
			continue
		}
		truth, _ := s.account.SIM(iccid)
		row.order = order{iccid: iccid, to: target(c.operation, truth.Raw), at: now}
		if kind := s.account.Order(iccid, row.order.to, c.operation); kind != "" {
			row.code, _ = word(lab.Problem{Kind: kind, From: truth.Raw, To: row.order.to}, "")
		}
		j.rows = append(j.rows, row)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	number := s.number()
	if len(s.jobs) >= maxOrders {
		clear(s.jobs)
	}
	s.jobs[number] = j
	return number
}

// target is the raw word that a suspend or resume leads to, on the platform of a SIM in that word.
func target(op simwarden.Operation, raw string) string {
	switch {
	case op == simwarden.OpSuspend && isPB(raw):
		return StoppedPBByRequest
	case op == simwarden.OpSuspend:
		return StoppedByRequest
	case isPB(raw):
		return wordPBActive
	}
	return wordActive
}
