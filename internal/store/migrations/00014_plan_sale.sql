-- +goose Up
-- A plan that is withdrawn is sold no more; what was bought of it runs on, and is renewed where it was to be.
ALTER TABLE plan ADD COLUMN withdrawn_at timestamptz;

-- +goose Down
ALTER TABLE plan DROP COLUMN withdrawn_at;
