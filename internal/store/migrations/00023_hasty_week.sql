-- +goose Up
-- An end that an edit brings forward is in haste where it comes within a week, as an imported plan's is that
-- began in the past (C10). One that is put off keeps what it was, for as long as it comes within a week still.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION subscription_end_written() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.kind <> 'main' OR NEW.end_at IS NULL THEN
		RETURN NEW;
	END IF;
	IF OLD.end_at IS NOT NULL THEN
		NEW.hasty_at := CASE
			WHEN NEW.end_at <= app_now() + interval '1 hour' THEN app_now()
			WHEN NEW.end_at > app_now() + interval '7 days' THEN NULL
			WHEN NEW.end_at < OLD.end_at THEN app_now()
			ELSE OLD.hasty_at END;
	ELSIF NEW.import_ref IS NOT NULL AND NEW.end_at <= NEW.bought_at + interval '1 hour' THEN
		NEW.hasty_at := NEW.bought_at; -- it waited in a queue behind what had ended long ago
	END IF;
	RETURN NEW;
END $$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION subscription_end_written() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.kind <> 'main' OR NEW.end_at IS NULL THEN
		RETURN NEW;
	END IF;
	IF OLD.end_at IS NOT NULL THEN
		NEW.hasty_at := CASE WHEN NEW.end_at <= app_now() + interval '1 hour' THEN app_now() END;
	ELSIF NEW.import_ref IS NOT NULL AND NEW.end_at <= NEW.bought_at + interval '1 hour' THEN
		NEW.hasty_at := NEW.bought_at; -- it waited in a queue behind what had ended long ago
	END IF;
	RETURN NEW;
END $$;
-- +goose StatementEnd
