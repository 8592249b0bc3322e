-- +goose Up
-- L4: when a bought plan begins, after how many days it begins by itself (0: never), and from which day of
-- the month its billing month runs (0: it has none).
ALTER TABLE plan
	ADD COLUMN activation text NOT NULL DEFAULT 'after_current' CHECK (activation IN ('now', 'after_current', 'first_use', 'realname')),
	ADD COLUMN activate_by_days integer NOT NULL DEFAULT 0 CHECK (activate_by_days BETWEEN 0 AND 3660),
	ADD COLUMN anchor_day smallint NOT NULL DEFAULT 0 CHECK (anchor_day BETWEEN 0 AND 31),
	DROP CONSTRAINT plan_validity_unit_check,
	DROP CONSTRAINT plan_reset_check,
	ADD CONSTRAINT plan_validity_unit_check CHECK (validity_unit IN ('days', 'months', 'month_end', 'billing_month', 'seconds')),
	ADD CONSTRAINT plan_reset_check CHECK (reset IN ('none', 'calendar_month', 'billing_month', 'cycle')),
	ADD CONSTRAINT plan_anchor_day CHECK ((anchor_day <> 0) = (validity_unit = 'billing_month' OR reset = 'billing_month'));
UPDATE plan SET activation = 'now' WHERE kind = 'addon';

-- ready_at: when what a queued subscription waits for came about; activate_by: when it begins without;
-- wake_at: when the sweep has to look at it, NULL where the end of the plan before it is what starts it.
-- anchor_day: the day of the month that a chain of plans in months keeps, 0 for other units.
-- last_reset_at: when its running allowance was filled, NULL where it never was again (U4).
ALTER TABLE subscription
	ADD COLUMN activation text NOT NULL DEFAULT 'after_current' CHECK (activation IN ('now', 'after_current', 'first_use', 'realname')),
	ADD COLUMN ready_at timestamptz,
	ADD COLUMN activate_by timestamptz,
	ADD COLUMN wake_at timestamptz,
	ADD COLUMN anchor_day smallint NOT NULL DEFAULT 0 CHECK (anchor_day BETWEEN 0 AND 31),
	ADD COLUMN last_reset_at timestamptz;
-- What is taken back before it has begun has no bounds.
ALTER TABLE subscription DROP CONSTRAINT subscription_check1,
	ADD CONSTRAINT subscription_bounds CHECK (state IN ('queued', 'cancelled') OR (start_at IS NOT NULL AND end_at > start_at)
		OR state = 'refunded' AND start_at IS NULL AND end_at IS NULL);
CREATE INDEX subscription_wake ON subscription (wake_at) WHERE state = 'queued' AND wake_at IS NOT NULL;

-- +goose Down
DROP INDEX subscription_wake;
UPDATE subscription SET state = 'cancelled' WHERE state = 'refunded' AND start_at IS NULL;
ALTER TABLE plan DROP CONSTRAINT plan_anchor_day;
UPDATE plan SET validity_unit = 'months' WHERE validity_unit = 'billing_month';
UPDATE plan SET reset = 'calendar_month' WHERE reset = 'billing_month';
ALTER TABLE subscription DROP CONSTRAINT subscription_bounds,
	ADD CONSTRAINT subscription_check1 CHECK (state = 'queued' OR state = 'cancelled' OR (start_at IS NOT NULL AND end_at > start_at));
ALTER TABLE subscription DROP COLUMN activation, DROP COLUMN ready_at, DROP COLUMN activate_by, DROP COLUMN wake_at,
	DROP COLUMN anchor_day, DROP COLUMN last_reset_at;
ALTER TABLE plan
	DROP CONSTRAINT plan_validity_unit_check,
	DROP CONSTRAINT plan_reset_check,
	ADD CONSTRAINT plan_validity_unit_check CHECK (validity_unit IN ('days', 'months', 'month_end', 'seconds')),
	ADD CONSTRAINT plan_reset_check CHECK (reset IN ('none', 'calendar_month', 'cycle')),
	DROP COLUMN activation, DROP COLUMN activate_by_days, DROP COLUMN anchor_day;
