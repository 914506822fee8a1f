-- The batch of charges and ends. `store/sqlite_batch.py` is the same for SQLite.
--
-- The states, as in `store/batch.py` and `store/states.py`:
--   calls.state    0 open     1 kept         2 refunded
--   ledger.kind    0 charge   1 refund       2 grant       3 redeemed code
--   tasks.status   0 queued   1 processing   2 completed   3 failed
--
-- Accounts are locked first, in ascending order: an account's row is the lock of all its rows in other tables.
-- Under READ COMMITTED each statement has its own snapshot, so each statement after the lock sees every commit
-- until then, and no decision uses a stale balance. No statement changes a row twice.
--
-- Ends are given as parallel arrays; `e_more` is a JSON array of {n, answer, audio, bytes, sha256}.
-- Charges likewise; `c_more` has {n, key, fingerprint, draft, voice_id, speed, text, language, status, defaults}
-- for each charge with an idempotency key, a task or default limits, which are those of a key and of an account,
-- each rpm, concurrent and units_per_day. Builds before schema 34 send no `language`. `n` counts from 1 in each.
-- Of two ends of one call in one batch, the first wins.
-- A charge whose call exists was committed by an earlier batch whose result was lost: its outcome is `charged`,
-- and nothing changes.
--
-- A long snapshot, such as a dump's, keeps all row versions of a balance. A lookup by id reads all of them, the
-- oldest first, since the index orders equal keys by their place in the table.
-- `id >= x AND id <= x ORDER BY id DESC LIMIT 1` reads the same entries backwards and finds the current version
-- first. Its `ctid` stays valid while the account is locked.
--
-- `rate` of a charge is [limit, remaining, reset_ms] of the calls in a minute; of one that a limit refused,
-- [1 if it is the key's, limit, used, reset_ms].
--
-- `lock_policy` is for rows that another session has locked. Operations that are left out get the outcome `busy`.
--   none      waits for nothing: leaves out locked accounts, and calls whose task is locked
--   account   as `none`, but where every account is locked it waits for one of them, with no other lock taken
--   all       waits for every lock: for the end of a call in a transaction that has locked its account
DROP FUNCTION IF EXISTS commit_batch;
CREATE FUNCTION commit_batch(
    e_ids bytea[], e_states bigint[], e_channels text[], e_reasons text[], e_usages text[], e_more json,
    c_ids bytea[], c_hashes bytea[], c_scopes bigint[], c_pays bigint[], c_units bigint[],
    c_lives bigint[], c_versions bigint[], c_requests text[], c_routes text[], c_more json,
    reservation_life bigint, lock_policy text
) RETURNS TABLE (
    part text, n bigint, outcome text, account bigint, key_id bigint, balance bigint, task bigint, stored text,
    rate bigint[]
)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_now bigint;
    v_version bigint;
    wanted bigint[];
    locked bigint[];
    one bigint;
    free_tasks bytea[];
    locked_tasks bytea[];
    m_ns bigint[]; m_ids bytea[]; m_accounts bigint[]; m_keys bigint[]; m_units bigint[]; m_states bigint[];
    m_pays bigint[]; m_times bigint[]; m_channels text[]; m_reasons text[]; m_caps bigint[];
    m_key_days bigint[]; m_account_days bigint[];
    v_hour bigint;
    v_ends text := '[]';
    g_ns bigint[] := '{}'; g_keys bigint[] := '{}'; g_accounts bigint[] := '{}'; g_units bigint[] := '{}';
    g_caps bigint[] := '{}';
    g_key_days bigint[] := '{}'; g_account_days bigint[] := '{}';  -- by `n`, of limited calls only
    cap bigint;
    -- The limits of the current account and its keys, with the keys' ids; those of the accounts before it.
    held limits[] := '{}';
    held_keys bigint[] := '{}';
    written limits[] := '{}';
    v_usage limits;
    counted_key bigint;
    place integer;
    counted integer[];
    default_limits bigint[];
    is_limited boolean;
    v_limit bigint;
    remaining bigint;
    changed bigint;
    current_account bigint := -1;
    c record;
    earlier record;
BEGIN
    SELECT array_agg(id) INTO wanted FROM (
        SELECT k.account_id AS id FROM unnest(c_hashes) AS h(hash) JOIN keys k ON k.hash = h.hash
        UNION
        SELECT calls.account_id FROM unnest(e_ids) AS e(id) JOIN calls ON calls.id = e.id
    ) AS w;
    IF lock_policy <> 'all' THEN
        SELECT array_agg(l.id) INTO locked
        FROM (SELECT id FROM unnest(wanted) AS w(id) ORDER BY id) AS w CROSS JOIN LATERAL (
            SELECT a.id FROM accounts a WHERE a.id >= w.id AND a.id <= w.id ORDER BY a.id DESC LIMIT 1
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS l;
        IF lock_policy = 'account' AND locked IS NULL THEN
            SELECT id INTO one FROM unnest(wanted) AS w(id) ORDER BY random() LIMIT 1;
            BEGIN
                SELECT array_agg(id) INTO locked FROM (
                    SELECT a.id FROM accounts a WHERE a.id >= one AND a.id <= one ORDER BY a.id DESC LIMIT 1
                    FOR NO KEY UPDATE
                ) AS l;
            EXCEPTION WHEN lock_not_available THEN
                locked := NULL;  -- still locked: all are busy
            END;
        END IF;
    ELSE
        SELECT array_agg(id) INTO locked FROM (
            SELECT a.id FROM accounts a WHERE a.id = ANY (wanted) ORDER BY a.id FOR NO KEY UPDATE
        ) AS l;
    END IF;
    v_now := now_ms();

    IF lock_policy <> 'all' AND (2 = ANY (e_states) OR json_array_length(e_more) > 0) THEN
        SELECT array_agg(call_id) INTO free_tasks FROM (
            SELECT call_id FROM tasks WHERE call_id = ANY (e_ids) AND account_id = ANY (locked) AND status IN (0, 1)
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS t;
        SELECT array_agg(call_id) INTO locked_tasks FROM tasks
        WHERE call_id = ANY (e_ids) AND account_id = ANY (locked) AND status IN (0, 1)
          AND NOT call_id = ANY (coalesce(free_tasks, '{}'));
    END IF;
    locked_tasks := coalesce(locked_tasks, '{}');

    IF cardinality(e_ids) > 0 THEN
        -- `+ 0` keeps the planner from the index of open calls, which has an entry for each call since the last vacuum.
        WITH moved AS (
            UPDATE calls SET state = e.state, ended_at = v_now, channel = e.channel, reason = e.reason,
                             usage = e.usage
            FROM (
                SELECT DISTINCT ON (id) id, state, channel, reason, usage, n
                FROM unnest(e_ids, e_states, e_channels, e_reasons, e_usages)
                     WITH ORDINALITY AS e(id, state, channel, reason, usage, n)
                ORDER BY id, n
            ) AS e
            WHERE calls.id = e.id AND calls.state + 0 = 0 AND calls.account_id = ANY (locked)
              AND NOT calls.id = ANY (locked_tasks)
            RETURNING e.n, calls.id, calls.account_id, calls.key_id, calls.units, calls.state, calls.pays,
                      greatest(v_now - calls.created_at, 0) AS ms, e.channel, e.reason,
                      calls.cap_from, calls.key_day, calls.account_day
        )
        SELECT array_agg(n), array_agg(id), array_agg(account_id), array_agg(key_id), array_agg(units),
               array_agg(state), array_agg(pays), array_agg(ms), array_agg(channel), array_agg(reason),
               array_agg(cap_from), array_agg(key_day), array_agg(account_day)
        INTO m_ns, m_ids, m_accounts, m_keys, m_units, m_states, m_pays, m_times, m_channels, m_reasons,
             m_caps, m_key_days, m_account_days FROM moved;

        IF 0 < ANY (m_key_days) OR 0 < ANY (m_account_days) THEN
            -- Refunded units are given back to the day in which they were charged, unless it is over.
            UPDATE limits SET open_calls = open_calls - m.calls, day_units = day_units - coalesce(m.units, 0)
            FROM (
                SELECT current.place, sum(e.calls) AS calls, sum(e.units) FILTER (WHERE e.day = current.day_from) AS units
                FROM (
                    SELECT account_id, key_id, day, count(*) AS calls, sum(units) FILTER (WHERE state = 2) AS units
                    FROM (
                        SELECT account_id, key_id, day, units, state
                        FROM unnest(m_accounts, m_keys, m_key_days, m_units, m_states)
                             AS m(account_id, key_id, day, units, state)
                        UNION ALL
                        SELECT account_id, 0, day, units, state
                        FROM unnest(m_accounts, m_account_days, m_units, m_states) AS m(account_id, day, units, state)
                    ) AS e WHERE day > 0 GROUP BY account_id, key_id, day
                ) AS e CROSS JOIN LATERAL (
                    SELECT p.ctid AS place, p.day_from FROM limits p
                    WHERE (p.account_id, p.key_id) >= (e.account_id, e.key_id)
                      AND (p.account_id, p.key_id) <= (e.account_id, e.key_id)
                    ORDER BY p.account_id DESC, p.key_id DESC LIMIT 1
                ) AS current
                GROUP BY current.place
            ) AS m
            WHERE limits.ctid = m.place;
        END IF;

        IF 2 = ANY (m_states) THEN
            INSERT INTO ledger (call_id, kind, account_id, units, created_at)
            SELECT id, 1, account_id, units, v_now
            FROM unnest(m_ids, m_accounts, m_units, m_states) AS m(id, account_id, units, state) WHERE state = 2;
            UPDATE accounts SET balance = balance + m.units
            FROM (
                SELECT account_id, sum(units) AS units
                FROM unnest(m_accounts, m_units, m_states) AS m(account_id, units, state)
                WHERE state = 2 GROUP BY account_id
            ) AS m CROSS JOIN LATERAL (
                SELECT a.ctid AS place FROM accounts a WHERE a.id >= m.account_id AND a.id <= m.account_id
                ORDER BY a.id DESC LIMIT 1
            ) AS current
            WHERE accounts.ctid = current.place;
            GET DIAGNOSTICS changed = ROW_COUNT;
            IF changed <> (SELECT count(DISTINCT a.id) FROM unnest(m_accounts, m_states) AS a(id, state)
                           WHERE state = 2)
            THEN RAISE EXCEPTION 'a balance that is refunded changed meanwhile'; END IF;
            IF 0 < ANY (m_caps) THEN  -- back to the period in which the call was charged, unless it is over
                UPDATE key_caps SET used = used - m.units
                FROM (
                    SELECT key_id, cap_from, sum(units) AS units
                    FROM unnest(m_keys, m_units, m_states, m_caps) AS m(key_id, units, state, cap_from)
                    WHERE state = 2 AND cap_from > 0 GROUP BY key_id, cap_from
                ) AS m CROSS JOIN LATERAL (
                    SELECT p.ctid AS place FROM key_caps p WHERE p.key_id >= m.key_id AND p.key_id <= m.key_id
                    ORDER BY p.key_id DESC LIMIT 1
                ) AS current
                WHERE key_caps.ctid = current.place AND key_caps.starts_at = m.cap_from;
            END IF;
            UPDATE tasks SET status = 3, ended_at = v_now, reason = m.reason
            FROM unnest(m_ids, m_states, m_reasons) AS m(id, state, reason)
            WHERE m.state = 2 AND tasks.call_id = m.id AND tasks.status IN (0, 1);
            DELETE FROM reservations USING unnest(m_ids, m_states) AS m(id, state)
            WHERE m.state = 2 AND call_id = m.id;
        END IF;
        IF json_array_length(e_more) > 0 THEN
            UPDATE tasks SET status = 2, ended_at = v_now, audio = more.audio, audio_bytes = more.bytes,
                             audio_sha256 = decode(more.sha256, 'hex')
            FROM unnest(m_ns, m_ids, m_states) AS m(n, id, state)
                 JOIN json_to_recordset(e_more) AS more(n bigint, audio text, bytes bigint, sha256 text)
                 ON more.n = m.n
            WHERE m.state = 1 AND more.audio IS NOT NULL
              AND tasks.call_id = m.id AND tasks.status = 1;
            UPDATE reservations SET answer = more.answer, draft = NULL
            FROM unnest(m_ns, m_ids, m_states) AS m(n, id, state)
                 JOIN json_to_recordset(e_more) AS more(n bigint, answer text) ON more.n = m.n
            WHERE m.state = 1 AND more.answer IS NOT NULL
              AND reservations.call_id = m.id;
        END IF;

        IF cardinality(m_ns) = cardinality(e_ids) THEN
            RETURN QUERY
            SELECT 'end', m.n, 'done', 0::bigint, 0::bigint, 0::bigint, 0::bigint, NULL::text, NULL::bigint[]
            FROM unnest(m_ns) AS m(n);
        ELSE
            RETURN QUERY
            SELECT 'end', e.n,
                   CASE WHEN calls.account_id IS NOT NULL AND NOT calls.account_id = ANY (coalesce(locked, '{}'))
                          OR calls.id = ANY (locked_tasks) THEN 'busy' WHEN calls.state = e.state THEN 'done' ELSE 'lost' END,
                   0::bigint, 0::bigint, 0::bigint, 0::bigint, NULL::text, NULL::bigint[]
            FROM unnest(e_ids, e_states) WITH ORDINALITY AS e(id, state, n) LEFT JOIN calls ON calls.id = e.id;
        END IF;
    END IF;

    IF cardinality(c_ids) > 0 THEN
        -- After the locks, which assign the transaction id: see `store/queries/audit_state.py` on the fence.
        SELECT version INTO v_version FROM site;
        <<charges>>
        FOR c IN
            SELECT o.n, o.id, o.hash, o.scope, o.pays, o.units, o.life, o.version, o.route,
                   k.id AS key_id, k.account_id, k.scopes, k.routed, k.capped, k.limited AS key_limited,
                   a.limited AS account_limited, a.balance, a.id = ANY (coalesce(locked, '{}')) AS locked,
                   k.revoked_at = 0 AND (k.expires_at = 0 OR k.expires_at > v_now) AND a.disabled_at = 0 AS usable,
                   done.account_id AS done, more.key, more.fingerprint, more.draft, more.voice_id, more.speed,
                   more.text, more.language, more.status, more.defaults
            FROM unnest(c_ids, c_hashes, c_scopes, c_pays, c_units, c_lives, c_versions, c_routes)
                 WITH ORDINALITY AS o(id, hash, scope, pays, units, life, version, route, n)
            LEFT JOIN keys k ON k.hash = o.hash
            LEFT JOIN LATERAL (
                SELECT * FROM accounts WHERE accounts.id >= k.account_id AND accounts.id <= k.account_id
                ORDER BY accounts.id DESC LIMIT 1
            ) AS a ON true
            LEFT JOIN calls done ON done.id = o.id
            LEFT JOIN json_to_recordset(c_more) AS more(
                n bigint, key text, fingerprint text, draft text, voice_id text, speed double precision,
                text text, language text, status bigint, defaults bigint[]) ON more.n = o.n
            ORDER BY k.account_id, o.n
        LOOP
            part := 'charge'; n := c.n; account := c.account_id; key_id := c.key_id; task := 0; stored := NULL; rate := NULL;
            IF c.account_id IS DISTINCT FROM current_account THEN
                current_account := c.account_id; remaining := c.balance;
                IF cardinality(held) > 0 THEN
                    written := written || held; held := '{}'; held_keys := '{}';
                END IF;
            END IF;
            balance := remaining;
            IF c.done IS NOT NULL THEN
                outcome := 'charged';
                SELECT coalesce(max(id), 0) INTO task FROM tasks WHERE call_id = c.id;
                RETURN NEXT; CONTINUE;
            END IF;
            IF c.account_id IS NOT NULL AND NOT c.locked THEN outcome := 'busy'; RETURN NEXT; CONTINUE; END IF;
            IF c.usable IS NOT TRUE OR c.scopes & c.scope = 0 THEN outcome := 'key'; RETURN NEXT; CONTINUE; END IF;
            IF c.routed = 1 AND NOT EXISTS (SELECT FROM key_routes WHERE key_id = c.key_id AND route = c.route) THEN
                outcome := CASE WHEN c.version = v_version THEN 'route' ELSE 'stale' END;
                RETURN NEXT; CONTINUE;
            END IF;
            IF c.scopes & c.pays = 0 THEN  -- a stored response needs the same scope as the call
                outcome := CASE WHEN c.version = v_version THEN 'rate' ELSE 'stale' END;
                RETURN NEXT; CONTINUE;
            END IF;
            IF c.key IS NOT NULL THEN
                SELECT fingerprint, answer INTO earlier FROM reservations
                WHERE account_id = c.account_id AND key = c.key AND created_at > v_now - reservation_life;
                IF FOUND THEN
                    stored := earlier.answer;
                    outcome := CASE WHEN earlier.fingerprint <> decode(c.fingerprint, 'hex') THEN 'reused'
                                    WHEN earlier.answer IS NULL THEN 'pending' ELSE 'replayed' END;
                    RETURN NEXT; CONTINUE;
                END IF;
            END IF;
            IF c.version <> v_version THEN outcome := 'stale'; RETURN NEXT; CONTINUE; END IF;
            IF remaining < c.units THEN outcome := 'units'; RETURN NEXT; CONTINUE; END IF;
            is_limited := c.key_limited = 1 OR c.account_limited = 1 OR c.defaults IS NOT NULL;
            IF is_limited THEN
                counted := '{}';
                FOREACH counted_key IN ARRAY ARRAY[c.key_id, 0] LOOP
                    default_limits := CASE counted_key WHEN 0 THEN c.defaults[4:6] ELSE c.defaults[1:3] END;
                    CONTINUE WHEN CASE counted_key WHEN 0 THEN c.account_limited ELSE c.key_limited END = 0
                              AND coalesce(0 = ALL (default_limits), true);
                    place := array_position(held_keys, counted_key);
                    IF place IS NULL THEN
                        SELECT p.* INTO v_usage FROM limits p
                        WHERE (p.account_id, p.key_id) >= (c.account_id, counted_key)
                          AND (p.account_id, p.key_id) <= (c.account_id, counted_key)
                        ORDER BY p.account_id DESC, p.key_id DESC LIMIT 1;
                        IF NOT FOUND THEN
                            INSERT INTO limits (account_id, key_id) VALUES (c.account_id, counted_key) RETURNING * INTO v_usage;
                        END IF;
                        -- A clock that is set back by more than a window begins another.
                        IF v_now >= v_usage.minute_ends OR v_now < v_usage.minute_ends - 2 * 60000 THEN
                            v_usage.minute_ends := v_now + 60000; v_usage.minute_calls := 0;
                        END IF;
                        IF v_now >= v_usage.day_ends OR v_now < v_usage.day_ends - 2 * 86400000 THEN
                            v_usage.day_from := greatest(v_now, v_usage.day_from + 1);
                            v_usage.day_ends := v_now + 86400000; v_usage.day_units := 0;
                        END IF;
                        held := array_append(held, v_usage); held_keys := array_append(held_keys, counted_key);
                        place := cardinality(held);
                    END IF;
                    v_usage := held[place];
                    v_limit := coalesce(v_usage.rpm, default_limits[1], 0);
                    IF v_limit > 0 AND v_usage.minute_calls >= v_limit THEN
                        outcome := 'rpm';
                        rate := ARRAY[sign(counted_key), v_limit, v_usage.minute_calls, v_usage.minute_ends - v_now];
                        RETURN NEXT; CONTINUE charges;
                    END IF;
                    v_limit := coalesce(v_usage.concurrent, default_limits[2], 0);
                    IF v_limit > 0 AND v_usage.open_calls >= v_limit THEN
                        outcome := 'concurrent'; rate := ARRAY[sign(counted_key), v_limit, v_usage.open_calls, 0];
                        RETURN NEXT; CONTINUE charges;
                    END IF;
                    v_limit := coalesce(v_usage.units_per_day, default_limits[3], 0);
                    IF v_limit > 0 AND v_usage.day_units + c.units > v_limit THEN
                        outcome := 'units_per_day';
                        rate := ARRAY[sign(counted_key), v_limit, v_usage.day_units, v_usage.day_ends - v_now];
                        RETURN NEXT; CONTINUE charges;
                    END IF;
                    counted := array_append(counted, place);
                END LOOP;
            END IF;
            cap := 0;
            IF c.capped = 1 THEN
                UPDATE key_caps SET used = used + c.units
                WHERE ctid = (SELECT p.ctid FROM key_caps p WHERE p.key_id >= c.key_id AND p.key_id <= c.key_id
                              ORDER BY p.key_id DESC LIMIT 1)
                  AND used + c.units <= units AND ends_at > v_now RETURNING starts_at INTO cap;
                IF NOT FOUND THEN
                    outcome := CASE WHEN EXISTS (SELECT FROM key_caps WHERE key_id = c.key_id AND ends_at <= v_now)
                                    THEN 'period' ELSE 'cap' END;
                    RETURN NEXT; CONTINUE;
                END IF;
            END IF;

            IF is_limited THEN
                FOREACH place IN ARRAY counted LOOP
                    v_usage := held[place];
                    v_usage.minute_calls := v_usage.minute_calls + 1;
                    v_usage.open_calls := v_usage.open_calls + 1;
                    v_usage.day_units := v_usage.day_units + c.units;
                    held[place] := v_usage;
                    IF v_usage.key_id = 0 THEN
                        g_account_days[c.n] := v_usage.day_from;
                    ELSE
                        g_key_days[c.n] := v_usage.day_from;
                    END IF;
                    v_limit := coalesce(v_usage.rpm, c.defaults[CASE v_usage.key_id WHEN 0 THEN 4 ELSE 1 END], 0);
                    IF v_limit > 0 AND (rate IS NULL OR v_limit - v_usage.minute_calls < rate[2]) THEN
                        rate := ARRAY[v_limit, v_limit - v_usage.minute_calls, v_usage.minute_ends - v_now];
                    END IF;
                END LOOP;
            END IF;
            remaining := remaining - c.units; balance := remaining;
            g_ns := g_ns || c.n; g_keys := g_keys || c.key_id; g_accounts := g_accounts || c.account_id;
            g_units := g_units || c.units; g_caps := g_caps || cap;
            IF c.text IS NOT NULL THEN
                INSERT INTO tasks (account_id, call_id, status, voice_id, speed, text, language, chars, created_at,
                                   deadline)
                VALUES (c.account_id, c.id, c.status, c.voice_id, c.speed, c.text, coalesce(c.language, ''),
                        char_length(c.text), v_now, CASE c.status WHEN 0 THEN v_now + c.life ELSE 0 END)
                RETURNING id INTO task;
            END IF;
            IF c.key IS NOT NULL THEN
                c.draft := replace(c.draft, chr(2), task::text);
                DELETE FROM reservations WHERE account_id = c.account_id AND key = c.key;
                INSERT INTO reservations (account_id, key, fingerprint, call_id, created_at, answer, draft)
                VALUES (c.account_id, c.key, decode(c.fingerprint, 'hex'), c.id, v_now,
                        CASE strpos(c.draft, chr(1)) WHEN 0 THEN c.draft END, c.draft);
            END IF;
            outcome := 'charged';
            RETURN NEXT;
        END LOOP;

        IF cardinality(held) > 0 OR cardinality(written) > 0 THEN
            UPDATE limits SET minute_ends = u.minute_ends, minute_calls = u.minute_calls, open_calls = u.open_calls,
                              day_from = u.day_from, day_ends = u.day_ends, day_units = u.day_units
            FROM unnest(written || held) AS u CROSS JOIN LATERAL (
                SELECT p.ctid AS place FROM limits p
                WHERE (p.account_id, p.key_id) >= (u.account_id, u.key_id)
                  AND (p.account_id, p.key_id) <= (u.account_id, u.key_id)
                ORDER BY p.account_id DESC, p.key_id DESC LIMIT 1
            ) AS current
            WHERE limits.ctid = current.place;
        END IF;
        INSERT INTO calls (id, account_id, key_id, pays, units, request_id, route, cap_from, key_day, account_day, state,
                           created_at, deadline)
        SELECT c_ids[g.n], g.account_id, g.key_id, c_pays[g.n], g.units, c_requests[g.n], c_routes[g.n], g.cap_from,
               coalesce(g_key_days[g.n], 0), coalesce(g_account_days[g.n], 0), 0, v_now, v_now + c_lives[g.n]
        FROM unnest(g_ns, g_accounts, g_keys, g_units, g_caps) AS g(n, account_id, key_id, units, cap_from);
        INSERT INTO ledger (call_id, kind, account_id, units, created_at)
        SELECT c_ids[g.n], 0, g.account_id, -g.units, v_now
        FROM unnest(g_ns, g_accounts, g_units) AS g(n, account_id, units);
        UPDATE accounts SET balance = balance - g.units
        FROM (
            SELECT account_id, sum(units) AS units
            FROM unnest(g_accounts, g_units) AS g(account_id, units) GROUP BY account_id
        ) AS g CROSS JOIN LATERAL (
            SELECT a.ctid AS place FROM accounts a WHERE a.id >= g.account_id AND a.id <= g.account_id
            ORDER BY a.id DESC LIMIT 1
        ) AS current
        WHERE accounts.ctid = current.place;
        GET DIAGNOSTICS changed = ROW_COUNT;
        IF changed <> (SELECT count(DISTINCT a.id) FROM unnest(g_accounts) AS a(id))
        THEN RAISE EXCEPTION 'a balance that is charged changed meanwhile'; END IF;
    END IF;

    IF m_keys IS NOT NULL THEN
        WITH counted AS (
            SELECT key_id, count(*) AS calls, count(*) FILTER (WHERE state = 1) AS ok_calls,
                   coalesce(sum(units) FILTER (WHERE state = 1), 0) AS cost
            FROM unnest(m_keys, m_units, m_states) AS m(key_id, units, state) GROUP BY key_id
        ), found AS (
            UPDATE key_usage SET calls = key_usage.calls + c.calls, ok_calls = key_usage.ok_calls + c.ok_calls,
                                 cost = key_usage.cost + c.cost, last_used_at = greatest(last_used_at, v_now)
            FROM counted AS c CROSS JOIN LATERAL (
                SELECT u.ctid AS place FROM key_usage u WHERE u.key_id >= c.key_id AND u.key_id <= c.key_id
                ORDER BY u.key_id DESC LIMIT 1
            ) AS current
            WHERE key_usage.ctid = current.place
            RETURNING key_usage.key_id
        )
        INSERT INTO key_usage (key_id, calls, ok_calls, cost, last_used_at)
        SELECT key_id, calls, ok_calls, cost, v_now FROM counted WHERE key_id NOT IN (SELECT key_id FROM found);

        -- `hour_of` in `lib/times.py` is the same.
        SELECT v_now - (v_now + hour_offset_ms) % 3600000 INTO v_hour FROM site;
        v_ends := json_build_array(v_hour, m_accounts, m_keys, m_pays, m_states, m_units, m_times, m_channels);
    END IF;

    IF m_keys IS NOT NULL OR cardinality(g_ns) > 0 THEN
        INSERT INTO outbox (id, at, size, entries, ended)
        SELECT int8send(v_now) || uuid_send(gen_random_uuid()), v_now,
               count(*) + coalesce(cardinality(m_ns), 0),
               coalesce(json_agg(json_build_array(encode(id, 'hex'), kind, account_id, key_id, units)), '[]')::text, v_ends
        FROM (
            SELECT id, 1 AS kind, account_id, key_id, units
            FROM unnest(m_ids, m_accounts, m_keys, m_units, m_states) AS m(id, account_id, key_id, units, state)
            WHERE state = 2
            UNION ALL
            SELECT c_ids[g.n], 0, g.account_id, g.key_id, -g.units
            FROM unnest(g_ns, g_accounts, g_keys, g_units) AS g(n, account_id, key_id, units)
        ) AS e;
    END IF;
END $$;
