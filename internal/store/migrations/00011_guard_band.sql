-- +goose Up
-- E12: how far usage may pass a plan's allowance, and with which probability that is promised; NULL: no promise.
ALTER TABLE plan
	ADD COLUMN guard_band_bytes bigint,
	ADD COLUMN guard_band_probability float8 NOT NULL DEFAULT 0.95 CHECK (guard_band_probability BETWEEN 0.5 AND 0.999),
	ADD CONSTRAINT plan_guard_band CHECK (guard_band_bytes IS NULL OR guard_band_bytes >= 0 AND kind = 'main' AND allowance_bytes >= 0);

-- At which rates the bytes of a SIM flowed, old ones fading: bytes by classes of half an octave of bytes a
-- second. Kept of SIMs whose plan has a guard band alone, and written only when they used something.
CREATE TABLE usage_rate (
	sim_id    bigint PRIMARY KEY REFERENCES sim ON DELETE CASCADE,
	intervals float8 NOT NULL,
	bytes     float8[] NOT NULL
) WITH (fillfactor = 70);

-- What is measured of an account: the rates of all its SIMs with a guard band together, and how long its
-- suspends take from their decision until the carrier shows them, at growing shares of them.
CREATE TABLE guard_band_account (
	account_id      bigint PRIMARY KEY REFERENCES account ON DELETE CASCADE,
	intervals       float8 NOT NULL,
	bytes           float8[] NOT NULL,
	latency_seconds float8[] NOT NULL,
	suspends        bigint NOT NULL,
	measured_at     timestamptz NOT NULL
);

-- Each suspend for used-up data under a guard band, and whether the promise was kept. used_bytes grows by
-- what is booked later for the time until until_at, when the SIM was let run again.
CREATE TABLE guard_band_stop (
	command_id         bigint PRIMARY KEY,
	sim_id             bigint NOT NULL,
	device_id          bigint,
	asset              bigint NOT NULL GENERATED ALWAYS AS (coalesce(-device_id, sim_id)) STORED,
	account_id         bigint NOT NULL,
	subscription_id    bigint NOT NULL,
	plan_id            bigint NOT NULL REFERENCES plan,
	allowance_bytes    bigint NOT NULL,
	guard_band_bytes   bigint NOT NULL,
	probability        float8 NOT NULL,
	early              boolean NOT NULL,
	ordered_at         timestamptz NOT NULL,
	ordered_used_bytes bigint NOT NULL,
	projected_bytes    bigint NOT NULL,
	used_bytes         bigint NOT NULL,
	stopped_at         timestamptz,
	until_at           timestamptz,
	withdrawn          boolean NOT NULL DEFAULT false
);
CREATE INDEX guard_band_stop_asset ON guard_band_stop (asset, ordered_at);
CREATE INDEX guard_band_stop_open ON guard_band_stop (sim_id) WHERE until_at IS NULL;
CREATE INDEX guard_band_stop_at ON guard_band_stop (ordered_at);

-- +goose Down
DROP TABLE guard_band_stop, guard_band_account, usage_rate;
ALTER TABLE plan DROP CONSTRAINT plan_guard_band, DROP COLUMN guard_band_bytes, DROP COLUMN guard_band_probability;
