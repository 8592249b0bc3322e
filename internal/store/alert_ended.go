package store

import (
	"context"
	"fmt"
	"time"
)

// alertsEndedMost bounds one look.
const alertsEndedMost = 1000

// ClearEndedAlerts closes the open alerts of anomalies and of what was set aside whose cause has ended,
// and gives how many (U2, F5):
//
//   - of a counter, when a later reading was believed;
//   - of an account's real names, when every SIM of it has been told one that is understood;
//   - of a SIM whose readings could not be taken in, when one was;
//   - of a command, a request or a subscription, when it is over or no longer due;
//   - of a SIM that flaps, when none of its commands has waited for that for a day (F30);
//   - of a SIM that could not be judged, when nobody has complained of it for quiet, in which all are judged again.
//
// Two commands of a SIM under way are for a person alone (V3).
func (s *Store) ClearEndedAlerts(ctx context.Context, quiet time.Duration) (int64, error) {
	now := s.Now()
	tag, err := s.pool.Exec(ctx, `
		UPDATE alert SET cleared_at = $1, cleared_by = 'system' WHERE cleared_at IS NULL AND id IN (
			SELECT a.id FROM alert a WHERE a.cleared_at IS NULL AND a.kind IN ('usage_anomaly', 'realname_unclear', 'row_set_aside', 'sim_flapping') AND CASE
				WHEN a.kind = 'usage_anomaly' THEN EXISTS (
					SELECT FROM poll_state p WHERE p.sim_id = a.sim_id AND p.usage_read_at > a.last_at)
				WHEN a.kind = 'realname_unclear' THEN NOT EXISTS (
					SELECT FROM poll_state p WHERE p.account_id = a.account_id AND p.realname_odd <> '')
				WHEN a.kind = 'sim_flapping' THEN a.last_at < $1::timestamptz - interval '1 day' AND NOT EXISTS (
					SELECT FROM command c WHERE c.sim_id = a.sim_id AND c.state = 'queued' AND c.held_by <> '')
				WHEN a.key LIKE 'row\_set\_aside:poll:%' THEN EXISTS (
					SELECT FROM poll_state p WHERE p.sim_id = a.sim_id AND greatest(p.state_read_at, p.usage_read_at, p.realname_read_at) > a.last_at)
				WHEN a.key ~ '^command_set_aside:[0-9]+$' THEN NOT EXISTS (
					SELECT FROM command c WHERE c.id = split_part(a.key, ':', 2)::bigint AND c.ended_at IS NULL)
				WHEN a.key ~ '^evaluation:[0-9]+$' THEN NOT EXISTS (
					SELECT FROM evaluation_request e WHERE e.id = split_part(a.key, ':', 2)::bigint AND e.done_at IS NULL)
				WHEN a.key ~ '^subscription:[0-9]+$' THEN NOT EXISTS (
					SELECT FROM subscription b WHERE b.id = split_part(a.key, ':', 2)::bigint
					  AND (b.state IN ('active', 'exhausted') AND least(b.end_at, b.next_reset_at) <= $1 OR b.state = 'queued' AND b.wake_at <= $1))
				WHEN a.key ~ '^(periodic|account_evaluation):[0-9]+$' THEN NOT EXISTS (
					SELECT FROM alert o WHERE o.cleared_at IS NULL AND o.last_at > $2
					  AND o.key IN (a.key, 'periodic:' || split_part(a.key, ':', 2)))
				ELSE false END
			LIMIT $3)`, now, now.Add(-quiet), alertsEndedMost)
	if err != nil {
		return 0, fmt.Errorf("clear alerts that are over: %w", err)
	}
	return tag.RowsAffected(), nil
}
