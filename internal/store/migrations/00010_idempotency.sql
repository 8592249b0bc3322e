-- +goose Up
-- What a request with an idempotency key was answered, written in the transaction of its effect (F51).
CREATE TABLE idempotency_key (
	principal   text NOT NULL,
	key         text NOT NULL CHECK (octet_length(key) BETWEEN 1 AND 255),
	fingerprint bytea NOT NULL CHECK (octet_length(fingerprint) = 32),
	answer      bytea NOT NULL,
	created_at  timestamptz NOT NULL,
	PRIMARY KEY (principal, key)
);
CREATE INDEX idempotency_key_age ON idempotency_key (created_at);

-- +goose Down
DROP TABLE idempotency_key;
