package check_test

import (
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/check"
	"github.com/simwarden/simwarden/internal/store"
)

// guard writes one that is on from since; released may be zero.
func (b *books) guard(kind string, since, released time.Time) int64 {
	b.t.Helper()
	return b.id(`INSERT INTO guard (kind, account_id, since_at, because, released_at) VALUES ($1, CASE WHEN $1 = 'mass_lapse' THEN 1 END, $2, 'test', $3) RETURNING id`,
		kind, since, null(released))
}

// lapse writes a plan that ended at an instant, with the request that follows.
func (b *books) lapse(when time.Time) int64 {
	b.t.Helper()
	id := b.plan(simwarden.SubscriptionExpired, when.Add(-time.Hour), when, when)
	b.request(simwarden.ScenePlanLapsed, id, when, when)
	b.event("plan_lapsed", when, map[string]any{"subscription_id": id})
	return id
}

func TestV13WhatIsHeldStays(t *testing.T) {
	usage := func(n int, every float64) func(*books) []check.Line {
		return func(b *books) []check.Line {
			for i := range n {
				b.command(simwarden.DirectionSuspend, simwarden.SceneUsageCheck, simwarden.CommandObsolete, 0, at(float64(i)*every))
			}
			return nil
		}
	}
	judge(t, []row{
		{"V13: an account that acts may send", func(b *books) []check.Line {
			b.attempt(attempted{command: suspending(b, simwarden.CommandDone), number: 1, when: at(1)})
			return nil
		}, "", check.Input{}},
		{"V13: an account that observes sent", func(b *books) []check.Line {
			b.exec(`UPDATE account SET mode = 'observe'`)
			b.attempt(attempted{command: suspending(b, simwarden.CommandDone), number: 1, when: at(1)})
			return nil
		}, "V13", check.Input{}},
		{"V13: an account that observes now, and acted, may have sent", func(b *books) []check.Line {
			b.exec(`UPDATE account SET mode = 'observe'`)
			b.exec(`INSERT INTO event (at, kind, account_id, actor, data) VALUES ($1, 'account_changed', 1, 'test', '{"change": "account_change", "to": {"mode": "act"}}')`, noon)
			b.attempt(attempted{command: suspending(b, simwarden.CommandDone), number: 1, when: at(1)})
			return nil
		}, "", check.Input{}},
		{"V13: as many automatic suspends as the brake allows", usage(50, 1), "", check.Input{}},
		{"V13: one more than the brake allows", usage(51, 1), "V13", check.Input{}},
		{"V13: more than that in a longer time than its window", usage(60, 20), "", check.Input{}},
		{"V13: more after a person's release", func(b *books) []check.Line {
			b.exec(`UPDATE account SET brake_released_at = $1`, at(29.5))
			return usage(60, 1)(b)
		}, "", check.Input{}},
		{"V13: a plan lapsed before the clock's guard was on", func(b *books) []check.Line {
			b.lapse(at(1))
			b.guard("clock", at(2), time.Time{})
			return nil
		}, "", check.Input{}},
		{"V13: a plan lapsed while the clock's guard was on", func(b *books) []check.Line {
			b.lapse(at(3))
			b.guard("clock", at(2), at(4))
			return nil
		}, "V13", check.Input{}},
		{"V13: a plan lapsed after the release", func(b *books) []check.Line {
			b.lapse(at(5))
			b.guard("clock", at(2), at(4))
			return nil
		}, "", check.Input{}},
		{"V13: an automatic suspend was opened while the clock's guard was on", func(b *books) []check.Line {
			b.command(simwarden.DirectionSuspend, simwarden.ScenePeriodic, simwarden.CommandObsolete, 0, at(3))
			b.guard("clock", at(2), time.Time{})
			return nil
		}, "V13", check.Input{}},
		{"V13: a resume is not held by it", func(b *books) []check.Line {
			b.command(simwarden.DirectionResume, simwarden.ScenePeriodic, simwarden.CommandObsolete, 0, at(3))
			b.guard("clock", at(2), time.Time{})
			return nil
		}, "", check.Input{}},
		{"V13: a plan lapsed that a guard holds", func(b *books) []check.Line {
			id := b.lapse(at(3))
			b.exec(`UPDATE subscription SET guard_id = $1 WHERE id = $2`, b.guard("mass_lapse", at(2), time.Time{}), id)
			return nil
		}, "V13", check.Input{}},
		{"V13: one import ended the plans of more SIMs at once than the brake allows", func(b *books) []check.Line {
			b.exec(`UPDATE account SET brake_count = 0, brake_percent = 0`)
			b.exec(`INSERT INTO sim (id, account_id, iccid, iccid_raw, created_at) SELECT 100 + i, 1, 'x' || i, 'x', $1 FROM generate_series(1, 11) i`, noon)
			b.exec(`INSERT INTO subscription (sim_id, plan_id, kind, state, start_at, end_at, allowance_bytes, bought_at, bought_by, ended_at, hasty_at)
				SELECT id, 1, 'main', 'expired', $1::timestamptz - interval '1 hour', $1, -1, $1, 'test', $1, $1 FROM sim WHERE id > 100`, noon)
			b.exec(`INSERT INTO evaluation_request (sim_id, scene, cause_kind, cause_id, subscription_id, asked_by, asked_at, run_at, done_at)
				SELECT sim_id, 'plan_lapsed', 'subscription', id, id, 'system', $1, $1, $1 FROM subscription WHERE sim_id > 100`, noon)
			b.exec(`INSERT INTO event (at, kind, sim_id, actor, data) SELECT $1, 'plan_lapsed', sim_id, 'system', jsonb_build_object('subscription_id', id) FROM subscription WHERE sim_id > 100`, noon)
			return nil
		}, "V13", check.Input{}},
	})
}

func TestV18TheAuditLog(t *testing.T) {
	manual := func(rows int) func(*books) []check.Line {
		return func(b *books) []check.Line {
			id := b.command(simwarden.DirectionSuspend, simwarden.SceneManual, simwarden.CommandObsolete, 0, at(1))
			b.exec(`UPDATE command SET asked_by = 'cli:anna' WHERE id = $1`, id)
			for range rows {
				b.exec(`INSERT INTO audit (at, actor, action, sim_id) VALUES ($1, 'cli:anna', 'sim_suspend', 1)`, at(1))
			}
			return nil
		}
	}
	judge(t, []row{
		{"V18: a person's order that the audit log has", manual(1), "", check.Input{}},
		{"V18: a person's order that it has not", manual(0), "V18", check.Input{}},
		{"V18: an automatic action in it", func(b *books) []check.Line {
			b.exec(`INSERT INTO audit (at, actor, action, sim_id) VALUES ($1, 'system', 'sim_suspend', 1)`, at(1))
			return nil
		}, "V18", check.Input{}},
	})
}

// The checker makes the seals by itself, so that it does not share a mistake with whoever made them.
func TestV18EveryTamperingIsFound(t *testing.T) {
	for _, row := range []struct{ says, do, want string }{
		{"an untouched log", `SELECT 1`, ""},
		{"a row was changed", `UPDATE audit SET actor = 'cli:bert' WHERE id = 2`, "V18"},
		{"a row was deleted", `DELETE FROM audit WHERE id = 2`, "V18"},
		{"a seal was deleted", `DELETE FROM audit_seal WHERE seq = 2`, "V18"},
		{"two rows changed places", `UPDATE audit_seal SET audit_id = 5 - audit_id WHERE seq IN (2, 3)`, "V18"},
	} {
		t.Run(row.says, func(t *testing.T) {
			b := open(t)
			s, err := store.Open(t.Context(), store.Options{URL: b.conn.Config().ConnString()})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			b.exec(`INSERT INTO audit (at, actor, action, sim_id, data) SELECT $1, 'cli:anna', 'polling_pause', 1, '{"reason": "lost"}' FROM generate_series(1, 4)`, noon)
			lease, _, err := s.TakeLease(t.Context(), "audit_seal", "a", time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			if n, _, err := s.SealAudit(t.Context(), lease, 100, true); err != nil || n != 4 {
				t.Fatal(n, err)
			}
			b.exec(`SET session_replication_role = replica`)
			b.exec(`ALTER TABLE audit_seal DROP CONSTRAINT audit_seal_audit_id_key`)
			b.exec(row.do)
			report, err := check.Run(t.Context(), check.Input{DB: b.conn, Now: at(600), Settle: time.Second})
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range report.Violations {
				if v.Invariant != row.want {
					t.Errorf("found %s", v)
				}
			}
			if (len(report.Violations) > 0) != (row.want != "") {
				t.Errorf("found %v, want %q", report.Violations, row.want)
			}
		})
	}
}
