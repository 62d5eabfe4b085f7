-- When each duty of upkeep last did what it is for, and where: a row per duty, written now and then. It belongs to no org, and
-- nothing but people depends on it. Times are this database's.
CREATE TABLE duties (
    name         text COLLATE "C" PRIMARY KEY,
    succeeded_at bigint NOT NULL,
    host         text   NOT NULL
) WITH (fillfactor = 50);

-- Hosts have the same duties: the latest success of any of them counts.
CREATE FUNCTION note_duty(at bigint, duty text, host text) RETURNS void LANGUAGE sql AS $$
    INSERT INTO duties AS known VALUES (duty, moment(at), host)
    ON CONFLICT (name) DO UPDATE SET succeeded_at = excluded.succeeded_at, host = excluded.host
    WHERE known.succeeded_at <= excluded.succeeded_at
$$;

CREATE FUNCTION all_duties() RETURNS SETOF duties LANGUAGE sql STABLE AS $$
    SELECT * FROM duties ORDER BY name
$$;

-- What `doctor` asks. Whoever runs the program may call it all, also a login that owns nothing.

-- What of the schema is not as the migrations noted it. Another release of PostgreSQL may word a definition differently: then
-- only the names are compared.
CREATE FUNCTION changed_objects() RETURNS TABLE (change text) LANGUAGE sql STABLE AS $$
    SELECT made.kind || ' ' || made.name || CASE WHEN there.name IS NULL THEN ' is missing' ELSE ' is changed' END
    FROM schema_made AS made LEFT JOIN schema_objects AS there USING (kind, name)
    WHERE there.name IS NULL
       OR (made.server = current_setting('server_version_num')::integer / 10000 AND made.digest <> digest_of(there.definition))
    UNION ALL
    SELECT 'nothing says what the migrations made' WHERE NOT EXISTS (SELECT 1 FROM schema_made)
    ORDER BY 1
$$;

-- The youngest jobs beyond each age at which retention takes something: how many were looked at, and how many still have it.
-- Retention begins with the oldest, so that these are the last it comes to.
CREATE FUNCTION kept_beyond(kind text, before bigint, most integer) RETURNS TABLE (looked bigint, kept bigint)
LANGUAGE sql STABLE AS $$
    SELECT count(*), count(*) FILTER (WHERE one.held_at IS NULL AND CASE kind
        WHEN 'events' THEN one.events_expired_at IS NULL
        WHEN 'results' THEN one.result_id IS NOT NULL AND one.result_expired_at IS NULL
        ELSE true END)
    FROM (SELECT job.held_at, job.result_id, job.result_expired_at, job.events_expired_at FROM jobs AS job
          WHERE job.finished_at IS NOT NULL AND job.finished_at <= before ORDER BY job.finished_at DESC LIMIT most) AS one
$$;

-- The payloads outside of the store that the jobs which ended last name.
CREATE FUNCTION newest_blobs(most integer) RETURNS TABLE (org_id text, job_id text, result_id text, ref text)
LANGUAGE sql STABLE AS $$
    SELECT result.org_id, result.job_id, result.result_id, result.result_payload_ref
    FROM (SELECT job.org_id, job.job_id FROM jobs AS job WHERE job.finished_at IS NOT NULL
          ORDER BY job.finished_at DESC LIMIT most) AS ended
    CROSS JOIN LATERAL (
        SELECT * FROM job_results AS one WHERE one.org_id = ended.org_id AND one.job_id = ended.job_id OFFSET 0) AS result
    WHERE result.result_payload_ref <> 'inline:' AND result.removed_at IS NULL
$$;

SELECT plan_with('{kept_beyond, newest_blobs}', 'SET enable_bitmapscan = off SET enable_indexscan = on SET enable_indexonlyscan = on');

-- A secret that was made already; whoever only looks makes none.
CREATE FUNCTION kept_secret(wanted text) RETURNS bytea LANGUAGE sql STABLE AS $$
    SELECT secret FROM signing_secrets WHERE purpose = wanted
$$;

-- Messages to the outside: how many wait, since when the longest overdue of a lane that is not paused is due, and who gets
-- nothing at present.
CREATE FUNCTION delivery_state(at bigint) RETURNS TABLE (pending bigint, oldest_due bigint, paused bigint, disabled bigint)
LANGUAGE sql STABLE AS $$
    SELECT
        (SELECT count(*) FROM notifications WHERE delivery_status = 'pending' AND channel <> 'in_app' AND lane IS NOT NULL),
        (SELECT min(message.scheduled_at) FROM notifications AS message
         WHERE message.delivery_status = 'pending' AND message.channel <> 'in_app' AND message.lane IS NOT NULL
           AND message.scheduled_at <= moment(at)
           AND coalesce(message.claimed_until, 0) <= moment(at)
           AND NOT EXISTS (SELECT 1 FROM delivery_lanes AS lane
                           WHERE lane.org_id = message.org_id AND lane.lane = message.lane AND lane.paused_until > moment(at))),
        (SELECT count(*) FROM delivery_lanes WHERE paused_until > moment(at)),
        (SELECT count(*) FROM webhook_endpoints WHERE disabled_at IS NOT NULL)
$$;

SELECT plan_with('{delivery_state}', 'SET enable_bitmapscan = off SET enable_indexscan = on SET enable_indexonlyscan = on');
