-- +goose Up
-- Of each SIM the latest lapse or refund whose suspend was not sent since the account observed. Where polling
-- is paused nothing else comes back to it: it is judged when the account goes to act, and the row goes then (E6, C9).
CREATE TABLE lapse_observed (
	sim_id          bigint PRIMARY KEY REFERENCES sim,
	subscription_id bigint NOT NULL,
	scene           text NOT NULL,
	observed_at     timestamptz NOT NULL
);

-- +goose Down
DROP TABLE lapse_observed;
