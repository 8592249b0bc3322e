-- +goose Up
-- The latest flush that each process has added to call_stat. One whose answer was lost comes again with its
-- number, and is not added a second time.
CREATE TABLE call_stat_writer (
	writer     text PRIMARY KEY,
	number     bigint NOT NULL,
	written_at timestamptz NOT NULL
);

-- +goose Down
DROP TABLE call_stat_writer;
