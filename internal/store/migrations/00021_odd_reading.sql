-- +goose Up
-- SIMs that read odd within an account's brake window: their number puts the brake on. None is noted while it
-- is on, so that there are never many more than that takes.
CREATE TABLE odd_reading (
	account_id bigint NOT NULL REFERENCES account ON DELETE CASCADE,
	sim_id     bigint NOT NULL REFERENCES sim ON DELETE CASCADE,
	odd_at     timestamptz NOT NULL,
	PRIMARY KEY (account_id, sim_id)
);
CREATE INDEX odd_reading_sim ON odd_reading (sim_id);

-- +goose Down
DROP TABLE odd_reading;
