-- +goose Up
-- How often in any 24 hours checks alone may change a SIM of an account to the state that it should have had already, and
-- the least time from a resume to a suspend that checks alone ask for (F30); 0: no bound.
ALTER TABLE account
	ADD COLUMN check_changes_per_day integer NOT NULL DEFAULT 6 CHECK (check_changes_per_day BETWEEN 0 AND 1000),
	ADD COLUMN dwell_seconds integer NOT NULL DEFAULT 0 CHECK (dwell_seconds BETWEEN 0 AND 86400);

-- +goose Down
ALTER TABLE account DROP COLUMN check_changes_per_day, DROP COLUMN dwell_seconds;
