-- +goose Up
-- Whether the carrier holds a data limit for each of the account's SIMs, equal to what its plan allows (P8).
ALTER TABLE account ADD COLUMN carrier_limits boolean NOT NULL DEFAULT false;

-- The data limits of SIMs at their carriers, in bytes of the carrier's own counter and period; 0: none.
CREATE TABLE carrier_limit (
	sim_id        bigint PRIMARY KEY REFERENCES sim (id) ON DELETE CASCADE,
	account_id    bigint NOT NULL REFERENCES account (id),
	desired_bytes bigint NOT NULL DEFAULT 0 CHECK (desired_bytes >= 0),
	because       text NOT NULL DEFAULT '',
	desired_at    timestamptz NOT NULL,
	-- What the carrier holds, as it was last set or read, and its name for it.
	held_bytes    bigint NOT NULL DEFAULT 0 CHECK (held_bytes >= 0),
	handle        text NOT NULL DEFAULT '',
	altered       boolean NOT NULL DEFAULT false, -- somebody has changed it in another way
	set_at        timestamptz,
	checked_at    timestamptz,
	-- Since when a request is out, or it is not known what became of one: then the carrier is read first.
	sent_at       timestamptz,
	-- When what the carrier holds is read again at the latest, and before when nothing is done.
	check_at      timestamptz NOT NULL,
	due_at        timestamptz NOT NULL,
	failures      integer NOT NULL DEFAULT 0,
	error         text NOT NULL DEFAULT ''
);
CREATE INDEX carrier_limit_due ON carrier_limit (account_id, due_at);

-- +goose Down
DROP TABLE carrier_limit;
ALTER TABLE account DROP COLUMN carrier_limits;
