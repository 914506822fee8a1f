-- The batch of charges and ends; its twin for SQLite is `store/sqlite_batch.py`.
--
-- Accounts are locked first, ascending: the account's row is the lock of all that belongs to it. Every
-- statement behind the lock sees what was committed until then (READ COMMITTED, a snapshot a statement), so
-- a decision is never made on a stale balance. No statement changes a row twice.
--
-- Ends are given as parallel arrays; `e_more` is a JSON array of {n, answer, audio, bytes, sha256, reason}.
-- Charges likewise; `c_more` holds {n, key, fingerprint, draft, voice_id, speed, text, status} where there is
-- a reservation or a task. `n` counts from 1 in each. With `skip`, accounts that somebody else holds are left
-- out and their operations answered `busy`. Of two ends of one call in one batch the first to arrive wins. A
-- charge whose call is there already was committed before, by a batch that could not say so: it is answered
-- as charged, and nothing moves.
CREATE OR REPLACE FUNCTION commit_batch(
    e_ids bytea[], e_states bigint[], e_more json,
    c_ids bytea[], c_hashes bytea[], c_scopes bigint[], c_pays bigint[], c_units bigint[],
    c_lives bigint[], c_versions bigint[], c_more json,
    reservation_life bigint, skip boolean
) RETURNS TABLE (part text, n bigint, outcome text, account bigint, number bigint, stored text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_now bigint;
    v_version bigint;
    wanted bigint[];
    locked bigint[];
    m_ns bigint[]; m_ids bytea[]; m_accounts bigint[]; m_keys bigint[]; m_units bigint[]; m_states bigint[];
    g_ns bigint[] := '{}'; g_keys bigint[] := '{}'; g_accounts bigint[] := '{}'; g_units bigint[] := '{}';
    rest bigint;
    holder bigint := -1;
    c record;
    reserved record;
    task bigint;
BEGIN
    SELECT array_agg(id) INTO wanted FROM (
        SELECT k.account_id AS id FROM unnest(c_hashes) AS h(hash) JOIN keys k ON k.hash = h.hash
        UNION
        SELECT calls.account_id FROM unnest(e_ids) AS e(id) JOIN calls ON calls.id = e.id
    ) AS w;
    IF skip THEN
        SELECT array_agg(id) INTO locked FROM (
            SELECT a.id FROM accounts a WHERE a.id = ANY (wanted) ORDER BY a.id FOR NO KEY UPDATE SKIP LOCKED
        ) AS l;
    ELSE
        SELECT array_agg(id) INTO locked FROM (
            SELECT a.id FROM accounts a WHERE a.id = ANY (wanted) ORDER BY a.id FOR NO KEY UPDATE
        ) AS l;
    END IF;
    v_now := now_ms();

    IF cardinality(e_ids) > 0 THEN
        -- `+ 0` keeps the index of open calls out of it: that has an entry for each call since the last vacuum.
        WITH moved AS (
            UPDATE calls SET state = e.state, ended_at = v_now
            FROM (
                SELECT DISTINCT ON (id) id, state, n
                FROM unnest(e_ids, e_states) WITH ORDINALITY AS e(id, state, n) ORDER BY id, n
            ) AS e
            WHERE calls.id = e.id AND calls.state + 0 = 0 AND calls.account_id = ANY (locked)
            RETURNING e.n, calls.id, calls.account_id, calls.key_id, calls.units, calls.state
        )
        SELECT array_agg(n), array_agg(id), array_agg(account_id), array_agg(key_id), array_agg(units),
               array_agg(state)
        INTO m_ns, m_ids, m_accounts, m_keys, m_units, m_states FROM moved;

        IF 2 = ANY (m_states) THEN
            INSERT INTO ledger (call_id, kind, account_id, units, created_at)
            SELECT id, 1, account_id, units, v_now
            FROM unnest(m_ids, m_accounts, m_units, m_states) AS m(id, account_id, units, state) WHERE state = 2;
            UPDATE accounts SET balance = balance + m.units
            FROM (
                SELECT account_id, sum(units) AS units
                FROM unnest(m_accounts, m_units, m_states) AS m(account_id, units, state)
                WHERE state = 2 GROUP BY account_id
            ) AS m WHERE accounts.id = m.account_id;
            UPDATE tasks SET status = 3, ended_at = v_now, reason = coalesce(more.reason, '')
            FROM unnest(m_ns, m_ids, m_states) AS m(n, id, state)
                 LEFT JOIN json_to_recordset(e_more) AS more(n bigint, reason text) ON more.n = m.n
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
            UPDATE reservations SET answer = more.answer
            FROM unnest(m_ns, m_ids, m_states) AS m(n, id, state)
                 JOIN json_to_recordset(e_more) AS more(n bigint, answer text) ON more.n = m.n
            WHERE m.state = 1 AND more.answer IS NOT NULL
              AND reservations.call_id = m.id;
        END IF;

        IF cardinality(m_ns) = cardinality(e_ids) THEN
            RETURN QUERY SELECT 'end', m.n, 'done', 0::bigint, 0::bigint, NULL::text FROM unnest(m_ns) AS m(n);
        ELSE
            RETURN QUERY
            SELECT 'end', e.n,
                   CASE WHEN calls.account_id IS NOT NULL AND NOT calls.account_id = ANY (coalesce(locked, '{}'))
                        THEN 'busy' WHEN calls.state = e.state THEN 'done' ELSE 'lost' END,
                   0::bigint, 0::bigint, NULL::text
            FROM unnest(e_ids, e_states) WITH ORDINALITY AS e(id, state, n) LEFT JOIN calls ON calls.id = e.id;
        END IF;
    END IF;

    IF cardinality(c_ids) > 0 THEN
        SELECT version INTO v_version FROM site;
        FOR c IN
            SELECT o.n, o.id, o.hash, o.scope, o.pays, o.units, o.life, o.version,
                   k.id AS key_id, k.account_id, k.scopes, a.balance, a.id = ANY (coalesce(locked, '{}')) AS held,
                   k.revoked_at = 0 AND (k.expires_at = 0 OR k.expires_at > v_now) AND a.disabled_at = 0 AS usable,
                   done.account_id AS done, more.key, more.fingerprint, more.draft, more.voice_id, more.speed,
                   more.text, more.status
            FROM unnest(c_ids, c_hashes, c_scopes, c_pays, c_units, c_lives, c_versions)
                 WITH ORDINALITY AS o(id, hash, scope, pays, units, life, version, n)
            LEFT JOIN keys k ON k.hash = o.hash
            LEFT JOIN accounts a ON a.id = k.account_id
            LEFT JOIN calls done ON done.id = o.id
            LEFT JOIN json_to_recordset(c_more) AS more(
                n bigint, key text, fingerprint text, draft text, voice_id text, speed double precision,
                text text, status bigint) ON more.n = o.n
            ORDER BY k.account_id, o.n
        LOOP
            part := 'charge'; n := c.n; account := c.account_id; number := 0; stored := NULL;
            IF c.account_id IS DISTINCT FROM holder THEN
                holder := c.account_id; rest := c.balance;
            END IF;
            IF c.done IS NOT NULL THEN
                outcome := 'charged';
                SELECT coalesce(max(id), 0) INTO number FROM tasks WHERE call_id = c.id;
                RETURN NEXT; CONTINUE;
            END IF;
            IF c.account_id IS NOT NULL AND NOT c.held THEN outcome := 'busy'; RETURN NEXT; CONTINUE; END IF;
            IF c.usable IS NOT TRUE OR c.scopes & c.scope = 0 THEN outcome := 'key'; RETURN NEXT; CONTINUE; END IF;
            IF c.key IS NOT NULL THEN
                SELECT fingerprint, answer INTO reserved FROM reservations
                WHERE account_id = c.account_id AND key = c.key AND created_at > v_now - reservation_life;
                IF FOUND THEN
                    stored := reserved.answer;
                    outcome := CASE WHEN reserved.fingerprint <> decode(c.fingerprint, 'hex') THEN 'reused'
                                    WHEN reserved.answer IS NULL THEN 'pending' ELSE 'replayed' END;
                    RETURN NEXT; CONTINUE;
                END IF;
            END IF;
            IF c.version <> v_version THEN outcome := 'stale'; RETURN NEXT; CONTINUE; END IF;
            IF c.scopes & c.pays = 0 THEN outcome := 'rate'; RETURN NEXT; CONTINUE; END IF;
            IF rest < c.units THEN outcome := 'units'; number := rest; RETURN NEXT; CONTINUE; END IF;

            rest := rest - c.units;
            g_ns := g_ns || c.n; g_keys := g_keys || c.key_id; g_accounts := g_accounts || c.account_id;
            g_units := g_units || c.units;
            IF c.text IS NOT NULL THEN
                INSERT INTO tasks (account_id, call_id, status, voice_id, speed, text, chars, created_at, deadline)
                VALUES (c.account_id, c.id, c.status, c.voice_id, c.speed, c.text, char_length(c.text), v_now,
                        CASE c.status WHEN 0 THEN v_now + c.life ELSE 0 END)
                RETURNING id INTO task;
                number := task;
            END IF;
            IF c.key IS NOT NULL THEN
                c.draft := replace(c.draft, chr(2), number::text);
                DELETE FROM reservations WHERE account_id = c.account_id AND key = c.key;
                INSERT INTO reservations (account_id, key, fingerprint, call_id, created_at, answer, draft)
                VALUES (c.account_id, c.key, decode(c.fingerprint, 'hex'), c.id, v_now,
                        CASE strpos(c.draft, chr(1)) WHEN 0 THEN c.draft END, c.draft);
            END IF;
            outcome := 'charged';
            RETURN NEXT;
        END LOOP;

        INSERT INTO calls (id, account_id, key_id, pays, units, state, created_at, deadline)
        SELECT c_ids[g.n], g.account_id, g.key_id, c_pays[g.n], g.units, 0, v_now, v_now + c_lives[g.n]
        FROM unnest(g_ns, g_accounts, g_keys, g_units) AS g(n, account_id, key_id, units);
        INSERT INTO ledger (call_id, kind, account_id, units, created_at)
        SELECT c_ids[g.n], 0, g.account_id, -g.units, v_now
        FROM unnest(g_ns, g_accounts, g_units) AS g(n, account_id, units);
        UPDATE accounts SET balance = balance - g.units
        FROM (
            SELECT account_id, sum(units) AS units
            FROM unnest(g_accounts, g_units) AS g(account_id, units) GROUP BY account_id
        ) AS g WHERE accounts.id = g.account_id;
    END IF;

    INSERT INTO key_usage (key_id, calls, ok_calls, cost)
    SELECT key_id, count(*), count(*) FILTER (WHERE state = 1),
           coalesce(sum(units) FILTER (WHERE state = 1), 0)
    FROM unnest(m_keys, m_units, m_states) AS m(key_id, units, state) GROUP BY key_id ORDER BY key_id
    ON CONFLICT (key_id) DO UPDATE SET
        calls = key_usage.calls + excluded.calls, ok_calls = key_usage.ok_calls + excluded.ok_calls,
        cost = key_usage.cost + excluded.cost;
END $$;
