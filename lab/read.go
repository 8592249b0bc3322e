package lab

import (
	"time"

	"github.com/simwarden/simwarden"
)

// distortion is what the faults make of reads.
type distortion struct {
	faults []Fault
	stale  time.Duration
	flap   bool // the state that a flapping carrier shows this time
}

func (x *exchange) distortion() distortion {
	var d distortion
	for _, f := range x.faults {
		switch f.Name {
		case StaleRead:
			d.stale += f.duration()
		case Flap:
			d.flap = x.a.flaps.Add(1)%2 == 1
		case MassState, UnitChange, UsageDown:
		default:
			continue
		}
		d.faults = append(d.faults, f)
	}
	return d
}

func (x *exchange) read() Outcome {
	now := x.world.Now()
	d := x.distortion()
	x.a.mu.RLock()
	defer x.a.mu.RUnlock()
	x.truth(now)
	return Outcome{Views: []View{x.show(x.sim, &d, now)}, Now: now}
}

// truth notes the true state for the log. It needs mu held.
func (x *exchange) truth(now time.Time) {
	state := x.a.words[x.sim.at(now).word].State
	x.line.StateBefore, x.line.StateAfter = state, state
}

// show is a SIM as the answer shows it: late as the carrier is, distorted as the faults have it.
func (x *exchange) show(s *sim, d *distortion, now time.Time) View {
	a := x.a
	if len(d.faults) == 0 {
		v := a.view(s, now.Add(-a.spec.ReadLag))
		if x.req.Usage {
			x.measure(&v, s, now.Add(-a.spec.UsageLag), 1)
		}
		return v
	}
	stale, factor := time.Duration(0), 1.0
	state := simwarden.State("")
	for i := range d.faults {
		f := &d.faults[i]
		if len(f.ICCIDs) > 0 && !f.names(s.card.ICCID) {
			continue
		}
		switch f.Name {
		case StaleRead:
			stale += f.duration()
		case MassState:
			state = f.State
			if state == "" {
				state = simwarden.StateSuspended
			}
		case Flap:
			state = simwarden.StateSuspended
			if d.flap {
				state = simwarden.StateActive
			}
		case UnitChange:
			factor *= orFactor(f.Factor, 1024)
		case UsageDown:
			factor *= orFactor(f.Factor, 0.5)
		}
	}
	v := a.view(s, now.Add(-a.spec.ReadLag-stale))
	if word, ok := a.word(string(state)); ok && state != "" {
		v.Raw, v.State, v.Online, v.Pending = a.words[word].Raw, a.words[word].State, a.words[word].Traffic, false
	}
	if x.req.Usage {
		x.measure(&v, s, now.Add(-a.spec.UsageLag-stale), factor)
	}
	return v
}

func (f *Fault) names(iccid string) bool {
	for _, named := range f.ICCIDs {
		if named == iccid {
			return true
		}
	}
	return false
}

// maxSpans bounds the rows of one answer: 31 days of hours and some.
const maxSpans = 1000

// measure puts the usage of the asked span, as known at an instant, into the view.
func (x *exchange) measure(v *View, s *sim, known time.Time, factor float64) {
	v.UsageBytes = x.a.wrapped(scaled(s.between(x.a, x.req.From, x.req.Until, known), factor))
	if x.req.Step == StepAll {
		return
	}
	for from := x.req.From; from.Before(x.req.Until) && len(v.Spans) < maxSpans; {
		until := x.req.Step.after(from)
		bytes := x.a.wrapped(scaled(s.between(x.a, from, until, known), factor))
		if bytes != 0 || !x.req.NonZero {
			v.Spans = append(v.Spans, Span{From: from, Until: until, Bytes: bytes})
		}
		from = until
	}
}

// wrapped needs mu held.
func (a *Account) wrapped(bytes int64) int64 {
	if a.wrap <= 0 {
		return bytes
	}
	return bytes % a.wrap
}

func scaled(bytes int64, factor float64) int64 {
	if factor == 1 {
		return bytes
	}
	return int64(float64(bytes) * factor)
}

func orFactor(value, otherwise float64) float64 {
	if value != 0 {
		return value
	}
	return otherwise
}

// after is the first boundary of the step after t, in UTC.
func (s Step) after(t time.Time) time.Time {
	t = t.UTC()
	switch s {
	case StepFiveMinutes:
		return t.Truncate(5 * time.Minute).Add(5 * time.Minute)
	case StepHour:
		return t.Truncate(time.Hour).Add(time.Hour)
	case StepDay:
		return time.Date(t.Year(), t.Month(), t.Day()+1, 0, 0, 0, 0, time.UTC)
	default:
		return time.Date(t.Year(), t.Month()+1, 1, 0, 0, 0, 0, time.UTC)
	}
}

// list gives a page. The position is the index of a SIM in the account's list, which only grows.
func (x *exchange) list() Outcome {
	a, req := x.a, &x.req
	now := x.world.Now()
	d := x.distortion()
	limit, after := max(req.Limit, 1), max(req.After, 0)
	if a.spec.PageSize > 0 {
		limit = min(limit, a.spec.PageSize)
	}
	if a.spec.ShortPages {
		limit = max(1, limit/2+int(mix(x.world.seed, uint64(after), 10)%uint64(limit/2+1)))
	}
	out := Outcome{Now: now}
	if x.fault(ListEmpty) != nil {
		return out
	}
	a.mu.RLock()
	defer a.mu.RUnlock()
	if x.sim != nil {
		x.truth(now)
	}
	if req.ICCIDs != nil {
		for _, iccid := range req.ICCIDs {
			if s := a.find(iccid); s != nil {
				out.Views = append(out.Views, x.show(s, &d, now))
			}
		}
	} else {
		out.Views = x.views[:0]
		out.Next, out.More = x.page(&out.Views, after, limit, &d, now)
	}
	x.distortList(&out, after, limit, &d, now)
	x.views = out.Views[:0]
	return out
}

// page appends the rows after a position and says where the next page begins, if there is one.
func (x *exchange) page(views *[]View, after, limit int, d *distortion, now time.Time) (next int, more bool) {
	rows := 0
	for i := after; i < len(x.a.sims); i++ {
		if rows == limit && x.req.OnlyRaw == "" && !x.req.NonZero {
			return i, true
		}
		v := x.show(x.a.sims[i], d, now)
		raw := v.Raw
		if v.Pending && x.req.PendingRaw != "" {
			raw = x.req.PendingRaw
		}
		if x.req.OnlyRaw != "" && raw != x.req.OnlyRaw || x.req.NonZero && v.UsageBytes == 0 {
			continue
		}
		if rows == limit {
			return i, true
		}
		*views = append(*views, v)
		rows++
	}
	return 0, false
}

func (x *exchange) distortList(out *Outcome, after, limit int, d *distortion, now time.Time) {
	for i := range x.faults {
		f := &x.faults[i]
		switch f.Name {
		case ListRepeat:
			if f.Variant == "cursor" {
				out.Next, out.More = after, true
			} else if after > 0 {
				out.Views = out.Views[:0]
				x.page(&out.Views, max(0, after-limit), limit, d, now)
			}
		case ListShort:
			out.Views, out.More = out.Views[:len(out.Views)/3], false
		case ListMissing:
			kept := out.Views[:0]
			for _, v := range out.Views {
				gone := f.names(v.Card.ICCID)
				if len(f.ICCIDs) == 0 {
					gone = mix(x.world.seed, uint64(v.Card.Index), 11)%10 == 0
				}
				if !gone {
					kept = append(kept, v)
				}
			}
			out.Views = kept
		}
	}
}
