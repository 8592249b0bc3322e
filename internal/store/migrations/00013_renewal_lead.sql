-- +goose Up
-- How long before its end a main plan of the account's SIMs is bought again, where it is, for carriers whose
-- own renewal has to be prepared; 0: at its end.
ALTER TABLE account ADD COLUMN renewal_lead_seconds integer NOT NULL DEFAULT 0 CHECK (renewal_lead_seconds BETWEEN 0 AND 604800);
-- When that was done or found to be impossible or needless, once for each.
ALTER TABLE subscription ADD COLUMN early_at timestamptz;
CREATE INDEX subscription_early ON subscription (end_at, id)
	WHERE renew AND kind = 'main' AND state IN ('active', 'exhausted') AND guard_id IS NULL AND early_at IS NULL;

-- +goose Down
DROP INDEX subscription_early;
ALTER TABLE subscription DROP COLUMN early_at;
ALTER TABLE account DROP COLUMN renewal_lead_seconds;
