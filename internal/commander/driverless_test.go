package commander_test

import (
	"testing"

	"github.com/simwarden/simwarden"
)

func TestF16ACommandWhoseDriverIsNotBuiltInWaitsForAProgramThatHasIt(t *testing.T) {
	for _, row := range []struct {
		sentence string
		at       func(*rig, simwarden.CommandID)
	}{
		{"a command that was not sent", func(*rig, simwarden.CommandID) {}},
		{"a command whose outcome is unknown", func(r *rig, id simwarden.CommandID) {
			r.exec(`UPDATE command SET state = 'verifying', attempt = 1, may_act_until = $2 WHERE id = $1`, id, r.clock.Now())
		}},
	} {
		t.Run(row.sentence, func(t *testing.T) {
			r := newRig(t)
			id, iccid := r.lapsing()
			c := r.open(id)
			row.at(r, c.ID)
			r.exec(`UPDATE account SET driver = 'of a newer version'`)
			r.run() // fails the test where a step does
			if c = r.command(c.ID); !c.State.Open() || c.HeldBy != "the driver of a newer version is not in this program" {
				t.Errorf("the command is %s, held by %q", c.State, c.HeldBy)
			}
			if n := len(r.changes(iccid)); n != 0 {
				t.Errorf("%d requests without a driver", n)
			}
			r.exec(`UPDATE account SET driver = 'soracom'`)
			r.ends(c.ID, simwarden.CommandDone)
		})
	}
}
