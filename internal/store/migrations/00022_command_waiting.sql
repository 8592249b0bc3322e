-- +goose Up
-- Who has waited for longest, whatever its priority (G5).
CREATE INDEX command_waiting ON command (account_id, run_at) WHERE state = 'queued';

-- +goose Down
DROP INDEX command_waiting;
