-- +goose Up
-- The login in force at a carrier at which a new login ends the one before: one for all nodes. Who
-- holds the lease may log in; the epoch grows with each holder, so that one who was stopped meanwhile
-- does not write over what came after (F3, F34).
CREATE TABLE carrier_token (
	account_id  bigint PRIMARY KEY REFERENCES account ON DELETE CASCADE,
	sealed      bytea,                -- nothing before the first login
	renewed_at  timestamptz,
	holder      text NOT NULL,
	epoch       bigint NOT NULL,
	lease_until timestamptz NOT NULL  -- by the database's clock
);

-- +goose Down
DROP TABLE carrier_token;
