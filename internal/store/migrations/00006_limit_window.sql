-- +goose Up
-- Calls at a time over all nodes (0: any number), and the share of each longer window, in percent,
-- that polls leave to commands.
ALTER TABLE limit_group
	ADD COLUMN max_concurrent integer NOT NULL DEFAULT 0 CHECK (max_concurrent BETWEEN 0 AND 10000),
	ADD COLUMN command_share_percent integer NOT NULL DEFAULT 10 CHECK (command_share_percent BETWEEN 0 AND 90);

-- Limits of more than a second, beside limit_rate; operation '' counts all of the group's calls. What was
-- given out is kept in buckets of (window + 0.25 s)/60: counts[i] is that of bucket base + i - 1, polls[i]
-- the part of it that polls had. The counts lie in the row that is locked, so that whoever waited for
-- the lock sees them as they are then.
CREATE TABLE limit_window (
	limit_group_id bigint NOT NULL REFERENCES limit_group ON DELETE CASCADE,
	operation      text NOT NULL DEFAULT '',
	window_seconds integer NOT NULL CHECK (window_seconds BETWEEN 2 AND 2678400),
	calls          integer NOT NULL CHECK (calls BETWEEN 1 AND 100000000),
	base           bigint NOT NULL DEFAULT 0,
	counts         integer[] NOT NULL DEFAULT '{}',
	polls          integer[] NOT NULL DEFAULT '{}',
	PRIMARY KEY (limit_group_id, operation, window_seconds)
) WITH (fillfactor = 40);

-- Places among a carrier's calls at a time, by node. A node that holds none and wants some waits in the
-- order of since.
CREATE TABLE limit_place (
	key    text NOT NULL,              -- 'group:ID' or 'account:ID'
	holder text NOT NULL,
	held   integer NOT NULL,
	wanted integer NOT NULL,
	since  timestamptz NOT NULL,
	until  timestamptz NOT NULL,
	PRIMARY KEY (key, holder)
) WITH (fillfactor = 40);

-- take_slots leases timed slots of one limit, and counts them in all of its windows (G2, G4). Its last
-- arguments bring back slots of earlier leases that were not used.
-- +goose StatementBegin
CREATE FUNCTION take_slots(p_group bigint, p_line text, p_commands integer, p_polls integer, p_spent integer,
	p_span float8, p_within float8, p_slack float8, p_horizon float8, p_exempt_ahead float8,
	p_back_at timestamptz[], p_back integer[], p_back_polls integer[],
	OUT first_at timestamptz, OUT now_at timestamptz, OUT step float8, OUT slots integer, OUT for_polls integer,
	OUT limited boolean, OUT full_until timestamptz, OUT polls_until timestamptz)
LANGUAGE plpgsql AS $$
DECLARE
	v_rate_line text; v_slot_line text; v_rate integer; v_next timestamptz; v_share integer;
	v_windows integer; v_room bigint := 2147483647; v_room_polls bigint := 2147483647; v_most bigint := 2147483647;
	w record; v_w float8; v_now bigint; v_base bigint; v_len integer; v_b bigint; v_at integer; v_i integer;
	v_counts integer[]; v_polls integer[]; v_dirty boolean; v_sum bigint; v_sum_polls bigint; v_calls_polls bigint;
BEGIN
	slots := 0; for_polls := 0;
	SELECT command_share_percent INTO v_share FROM limit_group WHERE id = p_group;
	SELECT count(*) INTO v_windows FROM limit_window x WHERE x.limit_group_id = p_group AND x.operation IN (p_line, '');
	SELECT r.operation INTO v_rate_line FROM limit_rate r
	WHERE r.limit_group_id = p_group AND r.operation IN (p_line, '') ORDER BY r.operation DESC LIMIT 1;
	limited := v_rate_line IS NOT NULL OR v_windows > 0;
	IF NOT limited THEN
		RETURN;
	END IF;
	v_slot_line := coalesce(v_rate_line, p_line);
	SELECT s.next_at INTO v_next FROM limit_slot s WHERE s.limit_group_id = p_group AND s.operation = v_slot_line FOR UPDATE;
	IF NOT FOUND THEN
		INSERT INTO limit_slot (limit_group_id, operation, next_at) VALUES (p_group, v_slot_line, app_now()) ON CONFLICT DO NOTHING;
		SELECT s.next_at INTO v_next FROM limit_slot s WHERE s.limit_group_id = p_group AND s.operation = v_slot_line FOR UPDATE;
	END IF;
	-- Both only now: the lock may have been waited for.
	SELECT r.per_second INTO v_rate FROM limit_rate r WHERE r.limit_group_id = p_group AND r.operation = v_slot_line;
	now_at := app_now();
	v_rate := coalesce(v_rate, 100000);
	step := (1 + p_slack) / v_rate;
	first_at := greatest(least(v_next, now_at + make_interval(secs => p_horizon)), now_at);
	IF p_spent > 0 THEN
		first_at := least(first_at + make_interval(secs => p_spent * step), greatest(first_at, now_at + make_interval(secs => p_exempt_ahead)));
	END IF;

	FOR w IN SELECT * FROM limit_window x WHERE x.limit_group_id = p_group AND x.operation IN (p_line, '')
		ORDER BY x.operation, x.window_seconds FOR UPDATE
	LOOP
		v_w := (w.window_seconds + 0.25) / 60.0;
		v_now := floor(extract(epoch FROM now_at)::float8 / v_w)::bigint;
		v_base := v_now - 60;
		v_len := 63 + ceil(p_horizon / v_w)::integer;
		v_counts := w.counts; v_polls := w.polls; v_dirty := false;
		IF w.base <> v_base OR cardinality(w.counts) <> v_len THEN
			v_dirty := true;
			v_counts := array_fill(0, ARRAY[v_len]); v_polls := v_counts;
			FOR i IN 1 .. cardinality(w.counts) LOOP
				v_b := w.base + i - 1;
				CONTINUE WHEN v_b < v_base OR w.counts[i] = 0;
				IF v_b >= v_base + v_len THEN
					v_b := v_now; -- the clock was set back: it ages from now on
				END IF;
				v_i := v_b - v_base + 1;
				v_counts[v_i] := v_counts[v_i] + w.counts[i];
				v_polls[v_i] := v_polls[v_i] + w.polls[i];
			END LOOP;
		END IF;
		FOR i IN 1 .. cardinality(p_back_at) LOOP
			v_b := floor(extract(epoch FROM p_back_at[i])::float8 / v_w)::bigint;
			CONTINUE WHEN v_b < v_base OR v_b >= v_base + v_len;
			v_dirty := true;
			v_i := v_b - v_base + 1;
			v_counts[v_i] := greatest(0, v_counts[v_i] - p_back[i]);
			v_polls[v_i] := greatest(0, v_polls[v_i] - p_back_polls[i]);
		END LOOP;
		IF p_spent > 0 THEN
			v_dirty := true;
			v_counts[61] := v_counts[61] + p_spent;
		END IF;
		IF v_dirty THEN
			UPDATE limit_window x SET base = v_base, counts = v_counts, polls = v_polls
			WHERE x.limit_group_id = p_group AND x.operation = w.operation AND x.window_seconds = w.window_seconds;
		END IF;
		-- Any span of the window's length, with its unevenness, touches 61 buckets at most. Those to come
		-- count as well: other operations of the window may be ahead.
		v_b := floor(extract(epoch FROM first_at)::float8 / v_w)::bigint;
		v_at := v_b - v_base + 1;
		v_most := least(v_most, ceil(((v_b + 1) * v_w - extract(epoch FROM first_at)::float8) / step)::bigint);
		SELECT coalesce(sum(c), 0) INTO v_sum FROM unnest(v_counts[v_at - 60 :]) c;
		SELECT coalesce(sum(c), 0) INTO v_sum_polls FROM unnest(v_polls[v_at - 60 :]) c;
		v_calls_polls := greatest(1, w.calls::bigint * (100 - v_share) / 100);
		v_room := least(v_room, w.calls - v_sum);
		v_room_polls := least(v_room_polls, v_calls_polls - v_sum_polls);
		v_i := v_at - 60;
		WHILE (v_sum >= w.calls OR v_sum_polls >= v_calls_polls) AND v_i <= v_len LOOP
			IF v_sum >= w.calls AND v_sum - v_counts[v_i] < w.calls THEN
				full_until := greatest(full_until, to_timestamp((v_base + v_i + 60) * v_w));
			END IF;
			IF v_sum_polls >= v_calls_polls AND v_sum_polls - v_polls[v_i] < v_calls_polls THEN
				polls_until := greatest(polls_until, to_timestamp((v_base + v_i + 60) * v_w));
			END IF;
			v_sum := v_sum - v_counts[v_i];
			v_sum_polls := v_sum_polls - v_polls[v_i];
			v_i := v_i + 1;
		END LOOP;
	END LOOP;

	IF first_at <= now_at + make_interval(secs => p_within) THEN
		v_most := least(v_most, greatest(1, floor(p_span * v_rate)::bigint));
		slots := greatest(0, least(p_commands, v_room, v_most));
		for_polls := greatest(0, least(p_polls, v_room_polls, v_room - slots, v_most - slots));
		slots := slots + for_polls;
	END IF;
	IF slots > 0 THEN
		UPDATE limit_window x SET
			counts[floor(extract(epoch FROM first_at)::float8 / ((x.window_seconds + 0.25) / 60.0))::bigint - x.base + 1] =
				counts[floor(extract(epoch FROM first_at)::float8 / ((x.window_seconds + 0.25) / 60.0))::bigint - x.base + 1] + take_slots.slots,
			polls[floor(extract(epoch FROM first_at)::float8 / ((x.window_seconds + 0.25) / 60.0))::bigint - x.base + 1] =
				polls[floor(extract(epoch FROM first_at)::float8 / ((x.window_seconds + 0.25) / 60.0))::bigint - x.base + 1] + for_polls
		WHERE v_windows > 0 AND x.limit_group_id = p_group AND x.operation IN (p_line, '') AND cardinality(x.counts) > 0;
	END IF;
	UPDATE limit_slot s SET next_at = first_at + make_interval(secs => take_slots.slots * take_slots.step)
	WHERE s.limit_group_id = p_group AND s.operation = v_slot_line;
END $$;
-- +goose StatementEnd

-- take_places says how many calls at a time a node holds from now on. It never gives more than the cap to
-- all nodes together; p_in_use are those that the node cannot give back yet. allowed is how many the node
-- may have under way where others wait for a first one.
-- +goose StatementBegin
CREATE FUNCTION take_places(p_key text, p_holder text, p_cap integer, p_in_use integer, p_wanted integer, p_ttl float8, p_wait_ttl float8,
	OUT held integer, OUT allowed integer, OUT now_at timestamptz)
LANGUAGE plpgsql AS $$
DECLARE
	v_others bigint; v_starving bigint; v_older bigint; v_nodes bigint; v_had integer; v_since timestamptz;
BEGIN
	PERFORM pg_advisory_xact_lock(hashtextextended('limit_place ' || p_key, 0));
	now_at := app_now();
	DELETE FROM limit_place p WHERE p.key = p_key AND p.until <= now_at;
	SELECT p.held, p.since INTO v_had, v_since FROM limit_place p WHERE p.key = p_key AND p.holder = p_holder;
	IF v_had IS NULL OR v_had > 0 THEN
		v_since := now_at;
	END IF;
	SELECT coalesce(sum(p.held), 0), count(*) FILTER (WHERE p.held = 0 AND p.wanted > 0),
		count(*) FILTER (WHERE p.held = 0 AND p.wanted > 0 AND p.since < v_since), count(*)
	INTO v_others, v_starving, v_older, v_nodes
	FROM limit_place p WHERE p.key = p_key AND p.holder <> p_holder;
	held := greatest(p_in_use, least(p_in_use + p_wanted, p_cap - v_others - CASE WHEN v_had > 0 THEN v_starving ELSE v_older END), 0);
	allowed := least(held, p_cap);
	IF v_starving > 0 AND v_had > 0 THEN
		allowed := least(allowed, p_cap / (v_nodes + 1));
	END IF;
	IF held = 0 AND p_wanted = 0 THEN
		DELETE FROM limit_place p WHERE p.key = p_key AND p.holder = p_holder;
		RETURN;
	END IF;
	INSERT INTO limit_place AS p (key, holder, held, wanted, since, until)
	VALUES (p_key, p_holder, held, p_wanted, v_since, now_at + make_interval(secs => CASE WHEN held > 0 THEN p_ttl ELSE p_wait_ttl END))
	ON CONFLICT (key, holder) DO UPDATE SET held = excluded.held, wanted = excluded.wanted, since = excluded.since, until = excluded.until;
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION take_places(text, text, integer, integer, integer, float8, float8);
DROP FUNCTION take_slots(bigint, text, integer, integer, integer, float8, float8, float8, float8, float8, timestamptz[], integer[], integer[]);
DROP TABLE limit_place, limit_window;
ALTER TABLE limit_group DROP COLUMN max_concurrent, DROP COLUMN command_share_percent;
