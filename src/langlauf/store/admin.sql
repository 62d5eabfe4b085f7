-- What is beside jobs, in words that both databases understand: SQLite runs these statements, and PostgreSQL has a function of each.
--
-- `-- query:` begins a read and `-- change:` a write, with the types of PostgreSQL. The statements of a change run one after
-- another in one transaction, at the time `:now`. It returns the rows or the value of the last one, or as a boolean whether that
-- changed a row. `-- locks:` names what PostgreSQL locks until the end, because its writers are many. `{by:x}` names the index
-- for SQLite, `{each:x}` and `{rows:x}` stand for the values of a list and for rows of JSON, and `{skip_locked}` leaves out what
-- other transactions of PostgreSQL have locked.

-- API keys, ended sessions and signing secrets. Their numbers are committed in order, so that a reader misses none.

-- change: create_key(key_id text, org_id text, name text, secret_hash text, scopes text, expires_at bigint)
--   RETURNS SETOF key_views
-- locks: api_keys
-- An id that is taken makes nothing, and the caller draws another one. A retry finds its key.
INSERT INTO api_keys (key_id, org_id, name, secret_hash, scopes, created_at, expires_at, version)
SELECT :key_id, :org_id, :name, :secret_hash, :scopes, :now, :expires_at, coalesce(max(version), 0) + 1 FROM api_keys
WHERE true
ON CONFLICT (key_id) DO NOTHING;
SELECT {key_columns} FROM api_keys AS key
WHERE key.key_id = :key_id AND key.org_id = :org_id AND key.secret_hash = :secret_hash;

-- query: find_key(key_id text, org_id text) RETURNS SETOF key_views
-- With an org, only a key of that org.
SELECT {key_columns} FROM api_keys AS key WHERE key.key_id = :key_id AND (:org_id IS NULL OR key.org_id = :org_id);

-- change: revoke_key(key_id text, org_id text) RETURNS SETOF key_views
-- locks: api_keys
UPDATE api_keys SET revoked_at = :now, version = (SELECT max(version) + 1 FROM api_keys)
WHERE key_id = :key_id AND (:org_id IS NULL OR org_id = :org_id) AND revoked_at IS NULL;
SELECT {key_columns} FROM api_keys AS key WHERE key.key_id = :key_id AND (:org_id IS NULL OR key.org_id = :org_id);

-- change: forget_keys(org_id text) RETURNS bigint
-- locks: api_keys
-- Revokes all keys of an org, each under a version of its own, and erases their names. They stay, because the existence of a
-- key is what requires one.
UPDATE api_keys SET revoked_at = :now, version = revoked.version
FROM (SELECT key_id, (SELECT max(version) FROM api_keys) + row_number() OVER (ORDER BY key_id) AS version
      FROM api_keys WHERE org_id = :org_id AND revoked_at IS NULL) AS revoked
WHERE api_keys.key_id = revoked.key_id;
UPDATE api_keys SET name = '', last_used_at = NULL WHERE org_id = :org_id AND (name <> '' OR last_used_at IS NOT NULL);
SELECT count(*) FROM api_keys WHERE org_id = :org_id;

-- change: note_key_uses(rows json) RETURNS void
-- locks: rows of api_keys JOIN {rows:key_id text} USING (key_id) ORDER BY key_id
-- The latest use of each key.
UPDATE api_keys SET last_used_at = given.at FROM {rows:key_id text, at bigint}
WHERE api_keys.key_id = given.key_id AND (last_used_at IS NULL OR last_used_at < given.at);

-- query: list_keys(org_id text) RETURNS SETOF key_views
-- Of an org, or of all, oldest first.
SELECT {key_columns} FROM api_keys AS key
WHERE :org_id IS NULL OR key.org_id = :org_id ORDER BY key.org_id, key.created_at, key.key_id;

-- query: key_changes(after bigint) RETURNS TABLE (key_id text, org_id text, name text, scopes text, created_at bigint,
--   expires_at bigint, revoked_at bigint, last_used_at bigint, secret_hash text, version bigint)
-- Keys created or revoked after a version.
SELECT {key_columns}, key.secret_hash, key.version FROM api_keys AS key WHERE key.version > :after ORDER BY key.version;

-- change: keep_secret(purpose text, secret bytea) RETURNS bytea
-- The first one that is offered wins.
INSERT INTO signing_secrets (purpose, secret, created_at) VALUES (:purpose, :secret, :now) ON CONFLICT DO NOTHING;
SELECT secret FROM signing_secrets WHERE purpose = :purpose;

-- query: kept_secret(purpose text) RETURNS TABLE (secret bytea)
SELECT secret FROM signing_secrets WHERE purpose = :purpose;

-- change: end_session(session_id text, expires_at bigint) RETURNS void
-- locks: ended_sessions
-- Expired ones go, except the highest number, which is never given again.
DELETE FROM ended_sessions WHERE expires_at <= :now AND number < (SELECT max(number) FROM ended_sessions);
INSERT INTO ended_sessions (session_id, expires_at, number)
SELECT :session_id, :expires_at, coalesce(max(number), 0) + 1 FROM ended_sessions
WHERE true
ON CONFLICT (session_id) DO NOTHING;

-- query: session_ends(after bigint) RETURNS SETOF ended_sessions
SELECT session_id, expires_at, number FROM ended_sessions WHERE number > :after ORDER BY number;

-- Workers and duties.

-- change: save_worker_report(kept bigint, worker_id text, host text, pid integer, version text, analyses text, slots integer,
--   busy integer, every_seconds float8, started_at bigint, stopping boolean) RETURNS void
-- A worker that stops does not come back; its next life has another id. The silent ones go: the table is small.
INSERT INTO workers ({worker_names}, seen_at) VALUES ({worker_named}, :now)
ON CONFLICT (worker_id) DO UPDATE SET
    busy = excluded.busy, slots = excluded.slots, stopping = excluded.stopping, seen_at = excluded.seen_at
WHERE workers.stopping <= excluded.stopping;
DELETE FROM workers WHERE seen_at < :now - :kept;

-- change: remove_worker(worker_id text) RETURNS void
DELETE FROM workers WHERE worker_id = :worker_id;

-- query: all_workers() RETURNS TABLE (worker_id text, host text, pid integer, version text, analyses text, slots integer,
--   busy integer, every_seconds float8, started_at bigint, stopping boolean, seen_at bigint, held bigint, held_until bigint)
-- Each with the jobs that it holds, and until when: one walk over as many rows as run.
SELECT {worker_columns}, worker.seen_at, coalesce(held.jobs, 0), held.until
FROM workers AS worker LEFT JOIN (
    SELECT job.worker_id, count(*) AS jobs, max(job.lease_expires_at) AS until
    FROM job_rows AS job {by:idx_jobs_timeout_detection} WHERE job.deadline_at > 0 GROUP BY job.worker_id
) AS held ON held.worker_id = worker.worker_id
ORDER BY worker.started_at, worker.worker_id;

-- change: save_codes(rows json) RETURNS void
-- Which code a worker runs, and that it was seen now.
INSERT INTO codes (code, {code_names}, seen_at)
SELECT given.code, analysis, version, code_hash, package, langlauf, python, host, :now
FROM {rows:code bigint, analysis text, version text, code_hash text, package text, langlauf text, python text, host text}
WHERE true ORDER BY given.code
ON CONFLICT (code) DO UPDATE SET seen_at = excluded.seen_at;

-- query: find_code(code bigint) RETURNS SETOF codes
SELECT * FROM codes WHERE code = :code;

-- query: all_pauses() RETURNS SETOF pauses
SELECT {pause_names} FROM pauses ORDER BY analysis, org_id;

-- change: record_duty(name text, host text) RETURNS void
-- Processes have the same duties: the latest success of any of them counts.
INSERT INTO duties (name, succeeded_at, host) VALUES (:name, :now, :host)
ON CONFLICT (name) DO UPDATE SET succeeded_at = excluded.succeeded_at, host = excluded.host
WHERE duties.succeeded_at <= excluded.succeeded_at;

-- query: all_duties() RETURNS SETOF duties
SELECT name, succeeded_at, host FROM duties ORDER BY name;

-- Webhook endpoints. In PostgreSQL lanes are locked before endpoints, here and in `finish_delivery`.

-- part: endpoints
-- Each with the failures of its lane.
SELECT endpoint.org_id, endpoint.endpoint_id, endpoint.url, endpoint.name, endpoint.subjects, endpoint.created_at,
    endpoint.version, endpoint.former_until, endpoint.disabled_at, endpoint.disabled_reason,
    coalesce(trouble.failures, 0), trouble.failing_since, trouble.paused_until
FROM webhook_endpoints AS endpoint
LEFT JOIN delivery_lanes AS trouble ON trouble.org_id = endpoint.org_id AND trouble.lane = endpoint.endpoint_id
WHERE endpoint.org_id = :org_id

-- part: give_up_waiting
-- What waits for an endpoint that is not called any more; what is being sent may still arrive, and is not noted. What is locked
-- the next claim gives up.
WITH waiting AS (
    SELECT org_id, notification_id FROM outbox {by:idx_notifications_due}
    WHERE org_id = :org_id AND lane = :endpoint_id AND endpoint_id = :endpoint_id
      AND delivery_status = 'pending' AND channel <> 'in_app'
    ORDER BY scheduled_at {skip_locked})
UPDATE outbox SET delivery_status = 'failed', last_error = {0}, claimed_until = NULL
FROM waiting
WHERE outbox.org_id = waiting.org_id AND outbox.notification_id = waiting.notification_id
  AND outbox.delivery_status = 'pending'

-- change: add_endpoint(org_id text, endpoint_id text, url text, name text, subjects text, most integer)
--   RETURNS SETOF endpoint_views
-- locks: endpoints :org_id
-- Unless the org has its URL already, or too many.
INSERT INTO webhook_endpoints (org_id, endpoint_id, url, name, subjects, created_at, version)
SELECT :org_id, :endpoint_id, :url, :name, :subjects, :now, 1
WHERE (SELECT count(*) FROM webhook_endpoints AS one WHERE one.org_id = :org_id) < :most
ON CONFLICT DO NOTHING;
{endpoints} AND endpoint.endpoint_id = :endpoint_id AND endpoint.url = :url;

-- change: change_endpoint(org_id text, endpoint_id text, name text, subjects text, enabled boolean, reason text, overlap bigint)
--   RETURNS SETOF endpoint_views
-- NULL leaves a value as it is. Where there is an `overlap` the secret becomes another one, and the former holds as long.
DELETE FROM delivery_lanes WHERE :enabled IS NOT NULL AND org_id = :org_id AND lane = :endpoint_id;
UPDATE webhook_endpoints SET
    name = coalesce(:name, name),
    subjects = coalesce(:subjects, subjects),
    version = CASE WHEN :overlap IS NULL THEN version ELSE version + 1 END,
    former_until = coalesce(:now + :overlap, former_until),
    disabled_at = CASE WHEN :enabled THEN NULL WHEN NOT :enabled THEN coalesce(disabled_at, :now) ELSE disabled_at END,
    disabled_reason = CASE WHEN :enabled THEN NULL WHEN NOT :enabled THEN coalesce(disabled_reason, :reason)
        ELSE disabled_reason END
WHERE org_id = :org_id AND endpoint_id = :endpoint_id;
{give_up_waiting:'the endpoint is disabled: ' || :reason} AND NOT :enabled;
{endpoints} AND endpoint.endpoint_id = :endpoint_id;

-- change: remove_endpoint(org_id text, endpoint_id text) RETURNS boolean
{give_up_waiting:'the endpoint was removed'};
DELETE FROM delivery_lanes WHERE org_id = :org_id AND lane = :endpoint_id;
DELETE FROM webhook_endpoints WHERE org_id = :org_id AND endpoint_id = :endpoint_id;

-- query: read_endpoints() RETURNS SETOF endpoint_views
{endpoints} ORDER BY endpoint.created_at, endpoint.endpoint_id;

-- change: subscribe(org_id text, job_id text, channel text, target text, lane text, language text) RETURNS TABLE (in_time boolean)
-- locks: rows of job_rows WHERE org_id = :org_id AND job = key_of(:job_id)
-- In place of the last one for that channel, and only while the job has not ended: the transaction of its end writes the messages.
DELETE FROM job_wishes
WHERE org_id = :org_id AND job_id = :job_id AND channel = :channel AND EXISTS (
    SELECT 1 FROM jobs AS job WHERE job.org_id = :org_id AND {is_job:job} AND job.finished_at IS NULL);
INSERT INTO job_wishes (org_id, job_id, channel, target, lane, language)
SELECT job.org_id, job.job_id, :channel, :target, :lane, :language
FROM jobs AS job WHERE job.org_id = :org_id AND {is_job:job} AND job.finished_at IS NULL;
SELECT job.finished_at IS NULL FROM jobs AS job WHERE job.org_id = :org_id AND {is_job:job};

-- query: pending_deliveries() RETURNS TABLE (channel text, pending bigint)
SELECT channel, count(*) FROM outbox {by:idx_notifications_due}
WHERE delivery_status = 'pending' AND channel <> 'in_app' AND lane IS NOT NULL GROUP BY channel;

-- query: read_delivery_attempts(notification_id text, limit integer) RETURNS SETOF delivery_attempts
SELECT org_id, notification_id, attempt, job_id, at, seconds, status, status_code, error, reply
FROM delivery_attempts WHERE org_id = :org_id AND notification_id = :notification_id
ORDER BY attempt DESC LIMIT :limit;

-- Receivers of mail.

-- part: mail_refusal
CASE WHEN EXISTS (
        SELECT 1 FROM mail_marks AS one WHERE one.org_id = :org_id AND one.address = :address AND one.mark = 'unsubscribed')
    THEN 'unsubscribed'
    WHEN :only_listed AND NOT EXISTS (
        SELECT 1 FROM mail_marks AS one WHERE one.org_id = :org_id AND one.address = :address AND one.mark = 'allowed')
    THEN 'unlisted' END

-- part: mails_of_org
(SELECT count(*) FROM mail_admissions AS one {by:idx_mail_admissions_org}
    WHERE one.org_id = :org_id AND one.at > :now - :org_window)

-- part: mails_to_address
(SELECT count(*) FROM mail_admissions AS one {by:idx_mail_admissions_address}
    WHERE one.org_id = :org_id AND one.address = :address AND one.at > :now - :address_window)

-- change: add_mail_mark(org_id text, address text, mark text) RETURNS boolean
INSERT INTO mail_marks (org_id, address, mark, at) VALUES (:org_id, :address, :mark, :now) ON CONFLICT DO NOTHING;

-- change: remove_mail_mark(org_id text, address text, mark text) RETURNS boolean
DELETE FROM mail_marks WHERE org_id = :org_id AND address = :address AND mark = :mark;

-- query: read_mail_marks(address text) RETURNS SETOF mail_marks
SELECT org_id, address, mark, at FROM mail_marks
WHERE org_id = :org_id AND (:address IS NULL OR address = :address) ORDER BY address, mark;

-- change: admit_mail(org_id text, notification_id text, attempt integer, address text, counted boolean, only_listed boolean,
--   org_quota integer, org_window bigint, address_quota integer, address_window bigint) RETURNS text
-- locks: mail :org_id
-- Counts a mail, once for each attempt, unless the org, or the address in this org, has had as many as it may; or says why not.
DELETE FROM mail_admissions
WHERE :counted AND org_id = :org_id AND at <= :now - :org_window AND at <= :now - :address_window;
INSERT INTO mail_admissions (org_id, notification_id, attempt, address, at)
SELECT :org_id, :notification_id, :attempt, :address, :now
WHERE :counted AND {mail_refusal} IS NULL AND {mails_of_org} < :org_quota AND {mails_to_address} < :address_quota
ON CONFLICT DO NOTHING;
SELECT coalesce({mail_refusal}, CASE
    WHEN NOT :counted OR EXISTS (
        SELECT 1 FROM mail_admissions
        WHERE org_id = :org_id AND notification_id = :notification_id AND attempt = :attempt) THEN NULL
    WHEN {mails_to_address} >= :address_quota THEN 'address_rate' ELSE 'org_rate' END);

-- Pauses of analyses. In PostgreSQL claims and pauses lock the virtual clock first: a claim that starts after a pause was
-- committed sees it, and none starts a job later than that.

-- change: pause_analysis(org_id text, analysis text, paused_until bigint, because text, paused_by text) RETURNS SETOF pauses
-- locks: rows of lane_clock
-- Since when counts from the first of several requests, unless its time is over.
INSERT INTO pauses (org_id, analysis, paused_at, paused_until, because, paused_by)
VALUES (:org_id, :analysis, :now, :paused_until, :because, :paused_by)
ON CONFLICT (org_id, analysis) DO UPDATE SET
    paused_at = CASE WHEN pauses.paused_until <= :now THEN :now ELSE pauses.paused_at END,
    paused_until = excluded.paused_until, because = excluded.because, paused_by = excluded.paused_by;
SELECT {pause_names} FROM pauses WHERE org_id = :org_id AND analysis = :analysis;

-- change: resume_analysis(org_id text, analysis text) RETURNS boolean
-- locks: rows of lane_clock
-- One whose time is over held no more.
DELETE FROM pauses WHERE org_id = :org_id AND analysis = :analysis AND paused_until <= :now;
DELETE FROM pauses WHERE org_id = :org_id AND analysis = :analysis;

-- Schedules.

-- change: add_schedule({schedule_typed}, most integer) RETURNS boolean
-- locks: schedules :org_id
-- Unless the org has one of its name, or too many.
INSERT INTO schedules ({schedule_names})
SELECT {schedule_named}
WHERE (SELECT count(*) FROM schedules AS one WHERE one.org_id = :org_id) < :most
ON CONFLICT DO NOTHING;

-- change: change_schedule({schedule_typed}, seen_at bigint) RETURNS boolean
-- What is written was read a moment ago: where it changed since, nothing is written.
UPDATE schedules SET analysis = :analysis, input = :input, cron = :cron, every_seconds = :every_seconds, zone = :zone,
    overlap = :overlap, missed = :missed, paused = :paused, notify = :notify, source = :source, updated_at = :updated_at,
    next_run_at = :next_run_at, claimed_until = NULL
WHERE org_id = :org_id AND name = :name AND updated_at = :seen_at;

-- query: next_planned(analyses text[]) RETURNS bigint
-- When the first schedule of known analyses is due that no process fires at this moment: mostly the first entry of each analysis
-- in the index. Only where a process fires that one, those behind it are looked at.
SELECT min((
    SELECT CASE WHEN coalesce(first.claimed_until, 0) <= first.next_run_at THEN first.next_run_at ELSE (
        SELECT min(CASE WHEN few.claimed_until > few.next_run_at THEN few.claimed_until ELSE few.next_run_at END) FROM (
            SELECT one.next_run_at, one.claimed_until FROM schedules AS one {by:idx_schedules_due}
            WHERE one.analysis = given.value AND one.next_run_at IS NOT NULL ORDER BY one.next_run_at LIMIT 1000) AS few) END
    FROM schedules AS first {by:idx_schedules_due}
    WHERE first.analysis = given.value AND first.next_run_at IS NOT NULL ORDER BY first.next_run_at LIMIT 1))
FROM {each:analyses};

-- change: claim_schedules(analyses text[], held bigint, most integer) RETURNS SETOF schedules
-- Due schedules of known analyses that no process fires at this moment, the longest due first.
WITH due AS MATERIALIZED (
    SELECT org_id AS due_org, name AS due_name FROM schedules {by:idx_schedules_due}
    WHERE next_run_at <= :now AND coalesce(claimed_until, 0) <= :now AND analysis IN (SELECT given.value FROM {each:analyses})
    ORDER BY next_run_at LIMIT :most {skip_locked})
UPDATE schedules SET claimed_until = :now + :held FROM due WHERE org_id = due_org AND name = due_name
RETURNING {schedule_names};

-- change: advance_schedules(rows json) RETURNS SETOF text
-- locks: rows of schedules JOIN {rows:org_id text, name text} USING (org_id, name) ORDER BY org_id, name
-- Only from the planned time that was fired: another process may have been faster, or the schedule was changed.
UPDATE schedules SET next_run_at = given.next_run_at, last_run_at = coalesce(given.last_run_at, schedules.last_run_at),
    last_outcome = coalesce(given.outcome, last_outcome), last_job_id = coalesce(given.job_id, last_job_id), claimed_until = NULL
FROM {rows:org_id text, name text, fired_at bigint, next_run_at bigint, last_run_at bigint, outcome text, job_id text}
WHERE schedules.org_id = given.org_id AND schedules.name = given.name AND schedules.next_run_at = given.fired_at
RETURNING schedules.name;

-- query: unfinished_runs(rows json) RETURNS TABLE (org_id text, name text)
-- Schedules of which an earlier run has not ended: the newest few of each are looked at.
SELECT given.org_id, given.name FROM {rows:org_id text, name text, planned_at bigint}
WHERE EXISTS (SELECT 1 FROM (
    SELECT one.finished_at FROM job_rows AS one {by:idx_jobs_schedule}
    WHERE {of_given_org:one} AND one.schedule = given.name AND one.planned_at < given.planned_at
    ORDER BY one.planned_at DESC LIMIT 100) AS newest WHERE newest.finished_at IS NULL);

-- change: remove_schedule(org_id text, name text) RETURNS boolean
DELETE FROM schedules WHERE org_id = :org_id AND name = :name;

-- query: read_schedules(name text) RETURNS SETOF schedules
SELECT {schedule_names} FROM schedules WHERE org_id = :org_id AND (:name IS NULL OR name = :name) ORDER BY name;

-- query: code_schedules() RETURNS SETOF schedules
SELECT {schedule_names} FROM schedules WHERE source = 'code';

-- query: planned_analyses() RETURNS TABLE (analysis text, org_id text, name text, next_run_at bigint, schedules bigint)
-- Of each analysis with planned runs the schedule whose run is the first, and how many there are.
SELECT analysis, org_id, name, next_run_at, planned FROM (
    SELECT analysis, org_id, name, next_run_at, count(*) OVER (PARTITION BY analysis) AS planned,
        row_number() OVER (PARTITION BY analysis ORDER BY next_run_at) AS place
    FROM schedules WHERE next_run_at IS NOT NULL) AS runs
WHERE place = 1 ORDER BY analysis;
