package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/fault"
)

// Cause is what an order or evaluation follows from: the kind of thing and its id (V1).
type Cause struct {
	Kind string `json:"kind"`
	ID   int64  `json:"id"`
}

// The kinds of cause.
const (
	CauseReading      = "reading"
	CauseSubscription = "subscription"
	CausePerson       = "person"
	CausePause        = "pause"
	CauseEvaluation   = "evaluation"
	CausePeriodic     = "periodic"
	CauseCommand      = "command"
	CauseAccount      = "account"
)

// Command is one decision to suspend or resume one SIM, on its way to the carrier.
type Command struct {
	ID               simwarden.CommandID      `json:"id"`
	SIMID            simwarden.SIMID          `json:"sim_id"`
	ICCID            string                   `json:"iccid"`
	AccountID        simwarden.AccountID      `json:"account_id"`
	Direction        simwarden.Direction      `json:"direction"`
	Scene            simwarden.Scene          `json:"scene"`
	Reason           simwarden.Reason         `json:"reason"`
	SubscriptionID   simwarden.SubscriptionID `json:"subscription_id,omitempty"`
	Cause            Cause                    `json:"cause"`
	AskedBy          string                   `json:"asked_by"`
	Decision         simwarden.Decision       `json:"decision"`
	State            simwarden.CommandState   `json:"state"`
	Priority         int                      `json:"priority"`
	RunAt            time.Time                `json:"run_at"`
	HeldBy           string                   `json:"held_by,omitempty"`
	Attempt          int                      `json:"attempt"`
	Failures         int                      `json:"failures"`
	ThrottledSinceAt time.Time                `json:"throttled_since_at,omitzero"`
	ClaimedBy        string                   `json:"-"`
	ClaimUntil       time.Time                `json:"claim_until,omitzero"`
	MayActUntil      time.Time                `json:"may_act_until,omitzero"`
	Handle           string                   `json:"handle,omitempty"`
	ConfirmUntil     time.Time                `json:"confirm_until,omitzero"`
	LastClass        string                   `json:"last_class,omitempty"`
	LastCode         string                   `json:"last_code,omitempty"`
	LastMessage      string                   `json:"last_message,omitempty"`
	CreatedAt        time.Time                `json:"created_at"`
	UpdatedAt        time.Time                `json:"updated_at"`
	EndedAt          time.Time                `json:"ended_at,omitzero"`
	EndBecause       string                   `json:"end_because,omitempty"`
}

const commandColumns = `c.id, c.sim_id, s.iccid, c.account_id, c.direction, c.scene, c.reason, coalesce(c.subscription_id, 0),
	c.cause_kind, c.cause_id, c.asked_by, c.decision, c.state, c.priority, c.run_at, c.held_by, c.attempt, c.failures,
	c.throttled_since_at, c.claimed_by, c.claim_until, c.may_act_until, c.handle, c.confirm_until,
	c.last_class, c.last_code, c.last_message, c.created_at, c.updated_at, c.ended_at, c.end_because`

func scanCommand(row pgx.Row) (Command, error) {
	var c Command
	var throttled, claim, may, confirm, ended *time.Time
	err := one(row, &c.ID, &c.SIMID, &c.ICCID, &c.AccountID, &c.Direction, &c.Scene, &c.Reason, &c.SubscriptionID,
		&c.Cause.Kind, &c.Cause.ID, &c.AskedBy, &c.Decision, &c.State, &c.Priority, &c.RunAt, &c.HeldBy, &c.Attempt, &c.Failures,
		&throttled, &c.ClaimedBy, &claim, &may, &c.Handle, &confirm,
		&c.LastClass, &c.LastCode, &c.LastMessage, &c.CreatedAt, &c.UpdatedAt, &ended, &c.EndBecause)
	if err != nil {
		return Command{}, err
	}
	c.ThrottledSinceAt, c.ClaimUntil, c.MayActUntil, c.ConfirmUntil, c.EndedAt = timeOf(throttled), timeOf(claim), timeOf(may), timeOf(confirm), timeOf(ended)
	c.RunAt, c.CreatedAt, c.UpdatedAt = c.RunAt.UTC(), c.CreatedAt.UTC(), c.UpdatedAt.UTC()
	return c, nil
}

func scanCommands(rows pgx.Rows, err error) ([]Command, error) {
	return scanAll("commands", scanCommand)(rows, err)
}

// NewCommand is a command to open.
type NewCommand struct {
	SIMID          simwarden.SIMID
	AccountID      simwarden.AccountID
	Direction      simwarden.Direction
	Scene          simwarden.Scene
	Reason         simwarden.Reason
	SubscriptionID simwarden.SubscriptionID
	Cause          Cause
	AskedBy        string
	Decision       simwarden.Decision
	Priority       int
	NotBefore      time.Time // zero: at once
}

// OpenCommands writes queued commands, each to be sent at once or not before its instant; it gives
// their ids in the order given. Only reconcile calls it. A second open command for a SIM is
// refused by the index command_open (C2).
func (tx *Tx) OpenCommands(ctx context.Context, list []NewCommand) ([]simwarden.CommandID, error) {
	n := len(list)
	if n == 0 {
		return nil, nil
	}
	sims, accounts, subs, causeIDs := make([]int64, n), make([]int64, n), make([]*int64, n), make([]int64, n)
	directions, scenes, reasons, causes, asked, decisions := make([]string, n), make([]string, n), make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	priorities, runAt := make([]int16, n), make([]time.Time, n)
	for i, c := range list {
		decision, err := marshalText(c.Decision)
		if err != nil {
			return nil, err
		}
		sims[i], accounts[i], subs[i], causeIDs[i] = int64(c.SIMID), int64(c.AccountID), nullID(int64(c.SubscriptionID)), c.Cause.ID
		directions[i], scenes[i], reasons[i], causes[i] = string(c.Direction), string(c.Scene), string(c.Reason), c.Cause.Kind
		asked[i], decisions[i], priorities[i], runAt[i] = c.AskedBy, decision, int16(c.Priority), tx.At
		if c.NotBefore.After(tx.At) {
			runAt[i] = c.NotBefore
		}
	}
	rows, err := tx.Query(ctx, `
		WITH new AS (
			SELECT *, nextval(pg_get_serial_sequence('command', 'id')) AS id
			FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::bigint[], $9::text[],
				$10::text[], $11::smallint[], $12::timestamptz[]) WITH ORDINALITY
				AS v (sim_id, account_id, direction, scene, reason, subscription_id, cause_kind, cause_id, asked_by, decision, priority, run_at, n)
		), opened AS (
			INSERT INTO command (id, sim_id, account_id, direction, scene, reason, subscription_id, cause_kind, cause_id, asked_by,
				decision, state, priority, run_at, created_at, updated_at)
			SELECT id, sim_id, account_id, direction, scene, reason, subscription_id, cause_kind, cause_id, asked_by,
				decision::jsonb, 'queued', priority,
				-- What the carrier asked to wait with this SIM holds for the next order too (C5).
				greatest(run_at, (SELECT max(b.run_at) FROM command b WHERE b.sim_id = new.sim_id AND b.last_class = 'throttled' AND b.run_at > $13)),
				$13, $13 FROM new
		)
		SELECT id FROM new ORDER BY n`,
		sims, accounts, directions, scenes, reasons, subs, causes, causeIDs, asked, decisions, priorities, runAt, tx.At)
	if err != nil {
		return nil, fmt.Errorf("open %d commands: %w", n, err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[simwarden.CommandID])
	if err != nil {
		return nil, fmt.Errorf("open %d commands: %w", n, err)
	}
	return ids, nil
}

// Lapse is one SIM's part in the end or refund of one subscription.
type Lapse struct {
	SIMID          simwarden.SIMID
	SubscriptionID simwarden.SubscriptionID
	Scene          simwarden.Scene
}

// TriggerLapses notes that lapses and refunds have triggered their one command (E6); commands
// are those that they triggered, and held says of each whether polling was stopped, in the same order.
func (tx *Tx) TriggerLapses(ctx context.Context, lapses []Lapse, commands []simwarden.CommandID, held []bool) error {
	if len(lapses) == 0 {
		return nil
	}
	sims, subs, scenes := lapseColumns(lapses)
	_, err := tx.Exec(ctx, `
		INSERT INTO lapse_trigger (sim_id, subscription_id, scene, command_id, triggered_at, held)
		SELECT sim_id, subscription_id, scene, command_id, $6, held
		FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::bool[]) AS v (sim_id, subscription_id, scene, command_id, held)
		ON CONFLICT DO NOTHING`, sims, subs, scenes, commands, held, tx.At)
	if err != nil {
		return fmt.Errorf("trigger %d lapses: %w", len(lapses), err)
	}
	return nil
}

// LapsesTriggered says which of the lapses have triggered before, and of each whether polling was
// stopped then.
func (tx *Tx) LapsesTriggered(ctx context.Context, lapses []Lapse) (map[Lapse]bool, error) {
	out := map[Lapse]bool{}
	if len(lapses) == 0 {
		return out, nil
	}
	sims, subs, scenes := lapseColumns(lapses)
	rows, err := tx.Query(ctx, `
		SELECT t.sim_id, t.subscription_id, t.scene, t.held FROM lapse_trigger t
		JOIN unnest($1::bigint[], $2::bigint[], $3::text[]) AS v (sim_id, subscription_id, scene) USING (sim_id, subscription_id, scene)`,
		sims, subs, scenes)
	if err != nil {
		return nil, fmt.Errorf("look for %d lapses: %w", len(lapses), err)
	}
	var l Lapse
	var held bool
	_, err = pgx.ForEachRow(rows, []any{&l.SIMID, &l.SubscriptionID, &l.Scene, &held}, func() error {
		out[l] = held
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for %d lapses: %w", len(lapses), err)
	}
	return out, nil
}

func lapseColumns(lapses []Lapse) (sims, subs []int64, scenes []string) {
	for _, l := range lapses {
		sims, subs, scenes = append(sims, int64(l.SIMID)), append(subs, int64(l.SubscriptionID)), append(scenes, string(l.Scene))
	}
	return sims, subs, scenes
}

// EndCommand ends an open command that is still in state from, writes its record (R1) and lets
// evaluations that waited for it run at once. False: somebody else has moved it meanwhile.
func (tx *Tx) EndCommand(ctx context.Context, id simwarden.CommandID, from, to simwarden.CommandState, because string) (bool, error) {
	var sim simwarden.SIMID
	var direction simwarden.Direction
	var reason simwarden.Reason
	err := tx.QueryRow(ctx, `
		UPDATE command SET state = $3, end_because = $4, ended_at = $5, updated_at = $5, held_by = '', claim_until = NULL, claimed_by = ''
		WHERE id = $1 AND state = $2 RETURNING sim_id, direction, reason`, id, string(from), string(to), because, tx.At).Scan(&sim, &direction, &reason)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("end command %d: %w", id, err)
	}
	if fault.Planted("V18") { // no record is left
		return true, tx.wakeEvaluations(ctx, sim)
	}
	if err := tx.writeRecord(ctx, id); err != nil {
		return false, err
	}
	switch {
	case direction == simwarden.DirectionResume && to == simwarden.CommandDone:
		err = tx.endGuardBandStop(ctx, sim, id)
	case direction == simwarden.DirectionSuspend && reason == simwarden.ReasonDataExhausted:
		err = tx.settleGuardBandStop(ctx, id, to)
	}
	if err != nil {
		return false, err
	}
	return true, tx.wakeEvaluations(ctx, sim)
}

// wakeEvaluations lets the requests that wait for a SIM's command run at once.
func (tx *Tx) wakeEvaluations(ctx context.Context, sim simwarden.SIMID) error {
	_, err := tx.Exec(ctx, `UPDATE evaluation_request SET run_at = $2 WHERE sim_id = $1 AND done_at IS NULL AND run_at > $2`, sim, tx.At)
	if err != nil {
		return fmt.Errorf("wake evaluations of sim %d: %w", sim, err)
	}
	return nil
}

// writeRecord copies an ended command with its attempts into the records (R1).
func (tx *Tx) writeRecord(ctx context.Context, id simwarden.CommandID) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO command_record (command_id, ended_at, sim_id, iccid, device_id, account_id, direction, scene, reason,
			subscription_id, status, end_because, asked_by, class, code, message, rule, decision, attempts, created_at)
		SELECT c.id, c.ended_at, c.sim_id, s.iccid, s.device_id, c.account_id, c.direction, c.scene, c.reason,
			c.subscription_id, c.state, c.end_because, c.asked_by, c.last_class, c.last_code, c.last_message,
			coalesce((SELECT t.rule FROM attempt t WHERE t.command_id = c.id ORDER BY t.number DESC LIMIT 1), ''),
			c.decision,
			coalesce((SELECT jsonb_agg(jsonb_build_object('number', t.number, 'request_id', t.request_id, 'claimed_at', t.claimed_at,
				'ended_at', t.ended_at, 'outcome', t.outcome, 'class', t.class, 'http_status', t.http_status, 'code', t.code,
				'message', t.message, 'rule', t.rule) ORDER BY t.number) FROM attempt t WHERE t.command_id = c.id), '[]'),
			c.created_at
		FROM command c JOIN sim s ON s.id = c.sim_id WHERE c.id = $1`, id)
	if err != nil {
		return fmt.Errorf("write record of command %d: %w", id, err)
	}
	return nil
}

// ObserveCommand writes what would have been sent for an account in observe mode (C9): a command
// that ends as it begins, and its record. The same order for a SIM is written again only when
// something else came between.
func (tx *Tx) ObserveCommand(ctx context.Context, c NewCommand) (bool, error) {
	decision, err := marshalText(c.Decision)
	if err != nil {
		return false, err
	}
	var id simwarden.CommandID
	err = tx.QueryRow(ctx, `
		INSERT INTO command (sim_id, account_id, direction, scene, reason, subscription_id, cause_kind, cause_id, asked_by,
			decision, state, priority, run_at, created_at, updated_at, ended_at, end_because)
		SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 'observed', $11, $12, $12, $12, $12, 'the account is in observe mode'
		WHERE NOT EXISTS (
			SELECT FROM (SELECT direction, reason, state FROM command WHERE sim_id = $1 ORDER BY id DESC LIMIT 1) latest
			WHERE latest.state = 'observed' AND latest.direction = $3 AND latest.reason = $5 AND $4 <> 'manual')
		RETURNING id`,
		c.SIMID, c.AccountID, string(c.Direction), string(c.Scene), string(c.Reason), nullID(int64(c.SubscriptionID)),
		c.Cause.Kind, c.Cause.ID, c.AskedBy, decision, c.Priority, tx.At).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("observe %s of sim %d: %w", c.Direction, c.SIMID, err)
	}
	return true, tx.writeRecord(ctx, id)
}

// AutomaticSuspends counts an account's automatic suspends since an instant, those of plan ends
// aside: what the safety brake looks at (C10).
func (tx *Tx) AutomaticSuspends(ctx context.Context, account simwarden.AccountID, since time.Time) (int, error) {
	var n int
	err := tx.QueryRow(ctx, `
		SELECT count(*) FROM command WHERE account_id = $1 AND direction = 'suspend' AND created_at > $2
		  AND scene NOT IN ('plan_lapsed', 'refunded', 'manual') AND state <> 'observed'`, account, since).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count suspends of account %d: %w", account, err)
	}
	return n, nil
}

// CommandFilter narrows a list of commands; zero fields do not.
type CommandFilter struct {
	SIMID     simwarden.SIMID
	AccountID simwarden.AccountID
	State     simwarden.CommandState
	OpenOnly  bool
	HeldOnly  bool                // those that wait for something
	Before    simwarden.CommandID // the last id of the page before
	Limit     int
}

// Commands lists commands, newest first.
func (s *Store) Commands(ctx context.Context, f CommandFilter) ([]Command, error) {
	return scanCommands(s.pool.Query(ctx, `SELECT `+commandColumns+` FROM command c JOIN sim s ON s.id = c.sim_id
		WHERE ($1::bigint = 0 OR c.sim_id = $1) AND ($2::bigint = 0 OR c.account_id = $2) AND ($3 = '' OR c.state = $3)
		  AND (NOT $4 OR c.state IN ('queued', 'sending', 'verifying', 'confirming')) AND ($5::bigint = 0 OR c.id < $5)
		  AND (NOT $7 OR c.held_by <> '')
		ORDER BY c.id DESC LIMIT $6`, f.SIMID, f.AccountID, string(f.State), f.OpenOnly, f.Before, f.Limit, f.HeldOnly))
}

// CommandByID gives one command.
func (s *Store) CommandByID(ctx context.Context, id simwarden.CommandID) (Command, error) {
	c, err := scanCommand(s.pool.QueryRow(ctx, `SELECT `+commandColumns+` FROM command c JOIN sim s ON s.id = c.sim_id WHERE c.id = $1`, id))
	if err != nil {
		return c, fmt.Errorf("command %d: %w", id, err)
	}
	return c, nil
}

func marshalText(v any) (string, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("marshal %T: %w", v, err)
	}
	return string(b), nil
}
