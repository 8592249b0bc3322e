-- +goose Up
-- Calls that a person makes to a carrier pass its limits (G2); how many one person may make is bounded here, over all
-- nodes together. There is a row for each token and local user that ever made one.
CREATE TABLE person_call (
	actor   text PRIMARY KEY,
	free_at timestamptz NOT NULL -- when all calls made so far are worked off, by the database's clock
);

-- +goose Down
DROP TABLE person_call;
