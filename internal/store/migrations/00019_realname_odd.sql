-- +goose Up
-- What the carrier said last of a SIM's real name where that is not understood; the status stays as it was.
ALTER TABLE poll_state ADD COLUMN realname_odd text NOT NULL DEFAULT '';
-- Few or none. Readings change neither column of it, so that they stay heap-only.
CREATE INDEX poll_state_realname_odd ON poll_state (account_id) WHERE realname_odd <> '';

-- +goose Down
DROP INDEX poll_state_realname_odd;
ALTER TABLE poll_state DROP COLUMN realname_odd;
