-- +goose Up
-- What carriers made of changes lately, one row an answer: what says whether an account refuses everybody (G8).
CREATE TABLE account_answer (
	account_id bigint NOT NULL,
	direction  text NOT NULL,
	at         timestamptz NOT NULL,
	sim_id     bigint NOT NULL,
	refused    boolean NOT NULL
);
CREATE INDEX account_answer_latest ON account_answer (account_id, direction, at);

-- An account whose changes of one direction rest, because nearly all were refused; since_at is NULL while it does not.
CREATE TABLE account_rest (
	account_id    bigint NOT NULL REFERENCES account ON DELETE CASCADE,
	direction     text NOT NULL CHECK (direction IN ('suspend', 'resume')),
	since_at      timestamptz,
	because       text NOT NULL DEFAULT '',
	probe_at      timestamptz,              -- when one SIM may be tried next
	probes        integer NOT NULL DEFAULT 0,
	probe_command bigint,                   -- the one tried last
	probed_at     timestamptz,
	ended_at      timestamptz,              -- answers before it count no more
	-- SIMs refused since then are still to be judged again.
	reopen_from   timestamptz,
	PRIMARY KEY (account_id, direction)
);

-- +goose Down
DROP TABLE account_rest, account_answer;
