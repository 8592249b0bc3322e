package check_test

import (
	"testing"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/check"
)

// closes closes the polling of SIM 1 two seconds after noon, for an extended state.
func (b *books) closes(extended string) {
	b.t.Helper()
	b.exec(`UPDATE sim SET closed_at = $1, closed_because = 'test' WHERE id = 1`, at(2))
	b.exec(`INSERT INTO event (at, kind, sim_id, actor, data) VALUES ($1, 'polling_closed', 1, 'system', jsonb_build_object('extended_state', $2::text))`, at(2), extended)
}

func TestV10PollingIsClosedForGoodReasonAlone(t *testing.T) {
	const terminated, risk = "terminated", "risk_suspended"
	// after closes the polling after the carrier has answered.
	after := func(extended string, lines ...check.Line) func(*books) []check.Line {
		return func(b *books) []check.Line {
			b.closes(extended)
			return lines
		}
	}
	told := func(state simwarden.State) check.Line { return read(at(1), state) }
	ofAnother := told(simwarden.StateTerminated)
	ofAnother.ICCID = another
	early := read(at(-600), simwarden.StateTerminated)
	list := told("")
	list.Kind, list.ICCID = "list", ""
	struck := list
	struck.Fault = "slow,mass_state"
	refused := told("")
	refused.Answer, refused.Status = "error", 400
	was := func(state simwarden.State, from float64) check.Input {
		return check.Input{History: map[string][]check.Moment{card: {{At: at(-3600), State: simwarden.StateActive}, {At: at(from), State: state}}}}
	}
	// marks gives the driver a rule that closes polling, or does not.
	marks := func(b *books, closes bool) {
		b.exec(`INSERT INTO error_rule (driver, position, name, class, extended, close_polling) VALUES ('soracom', 1, 'over', 'terminated', 'terminated', $1)`, closes)
	}
	answered := func(closes bool) func(*books) []check.Line {
		return func(b *books) []check.Line {
			marks(b, closes)
			b.closes(terminated)
			c := suspending(b, simwarden.CommandFailed)
			return []check.Line{change(b.attempt(attempted{command: c, number: 1, when: at(1), class: "terminated", rule: "over"}), at(1.2), "error", 400)}
		}
	}
	person := func(kind string, actor string) func(*books) []check.Line {
		return func(b *books) []check.Line {
			b.exec(`INSERT INTO event (at, kind, sim_id, actor) VALUES ($1, $2, 1, $3)`, at(1), kind, actor)
			return nil
		}
	}
	judge(t, []row{
		{"V10: closed after a state check said that it has ended", after(terminated, told(simwarden.StateTerminated)), "", check.Input{}},
		{"V10: closed although the state check said that it runs", after(terminated, told(simwarden.StateActive)), "V10", check.Input{}},
		{"V10: closed as ended although it is suspended only", after(terminated, told(simwarden.StateSuspended)), "V10", check.Input{}},
		{"V10: closed after a state check said that it is blocked", after(risk, told(simwarden.StateSuspended)), "", check.Input{}},
		{"V10: closed as blocked although it runs", after(risk, told(simwarden.StateActive)), "V10", check.Input{}},
		{"V10: closed with nothing said", after(terminated), "V10", check.Input{}},
		{"V10: closed for what was said of another SIM", after(terminated, ofAnother), "V10", check.Input{}},
		{"V10: closed for what was said long before", after(terminated, early), "V10", check.Input{}},
		{"V10: closed after a list, when it had ended", after(terminated, list), "", was(simwarden.StateTerminated, -10)},
		{"V10: closed after a list, before it ended", after(terminated, list), "V10", was(simwarden.StateTerminated, 1.5)},
		{"V10: closed after a list that said of all that they are stopped", after(risk, struck), "", was(simwarden.StateActive, -10)},
		{"V10: a check was answered with an error that closes", func(b *books) []check.Line {
			marks(b, true)
			return after(terminated, refused)(b)
		}, "", check.Input{}},
		{"V10: a check was answered with an error that does not", func(b *books) []check.Line {
			marks(b, false)
			return after(terminated, refused)(b)
		}, "V10", check.Input{}},
		{"V10: a suspend was answered with an error that closes", answered(true), "", check.Input{}},
		{"V10: a suspend was answered with an error that does not", answered(false), "V10", check.Input{}},
		{"V10: closed, and the history does not know", func(b *books) []check.Line {
			b.exec(`UPDATE sim SET closed_at = $1 WHERE id = 1`, at(2))
			return nil
		}, "V10", check.Input{}},
		{"V10: a person reopens", person("polling_reopened", "cli:anna"), "", check.Input{}},
		{"V10: the system reopens", person("polling_reopened", "system"), "V10", check.Input{}},
		{"V10: the system pauses the device", person("device_polling_paused", "system"), "V10", check.Input{}},
	})
}
