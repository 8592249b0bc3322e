-- +goose Up
-- The circuit breakers that are open, as each node tells of its own (G8); seen_at is when it last did.
CREATE TABLE account_breaker (
	account_id bigint NOT NULL REFERENCES account ON DELETE CASCADE,
	holder     text NOT NULL,
	since_at   timestamptz NOT NULL,
	probe_at   timestamptz NOT NULL,
	because    text NOT NULL,
	seen_at    timestamptz NOT NULL,
	PRIMARY KEY (account_id, holder)
);

-- +goose Down
DROP TABLE account_breaker;
