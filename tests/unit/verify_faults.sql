-- Faults to plant in a sound store: each with the rule that finds it, the job that shows it, and rules that find it as
-- well.
-- Format: a line "-- fault: RULE on JOB[, also RULE …][, in STORE only][, in STORE also RULE …]", then statements; :queued and its
-- like are ids of jobs.

-- fault: first_event on queued
DELETE FROM job_events WHERE job_id = :queued;

-- fault: first_event on failed
DELETE FROM job_events WHERE job_id = :failed AND event_seq = 1;

-- fault: first_event on failed, in sqlite also feed_places
UPDATE job_events SET event_type = 'job.progress', payload_json = '{"progress_percent":0}'
WHERE job_id = :failed AND event_seq = 1;

-- fault: event_types on released
UPDATE job_events SET event_type = 'job.vanished' WHERE job_id = :released AND event_type = 'job.released';

-- fault: event_types on released
UPDATE job_events SET payload_json = '{' WHERE job_id = :released AND event_type = 'job.released';

-- fault: event_sequence on released
DELETE FROM job_events WHERE job_id = :released AND event_type = 'job.progress';
UPDATE jobs SET progress_percent = 0 WHERE job_id = :released;

-- fault: event_sequence on released
DELETE FROM job_events WHERE job_id = :released AND event_type = 'job.released';

-- fault: event_sequence on queued
UPDATE jobs SET event_seq = 7 WHERE job_id = :queued;

-- fault: event_times on failed
UPDATE job_events SET occurred_at = occurred_at - 9000000 WHERE job_id = :failed AND event_seq = 3;

-- fault: legal_transitions on running
INSERT INTO job_events (org_id, job_id, event_seq, event_id, event_type, occurred_at, actor_type, payload_json, trace_id, request_id)
SELECT org_id, job_id, event_seq + 1, 'e', 'job.running', occurred_at, actor_type, '{}', '', ''
FROM job_events WHERE job_id = :running ORDER BY event_seq DESC LIMIT 1;
UPDATE jobs SET event_seq = event_seq + 1 WHERE job_id = :running;
UPDATE jobs SET attempt = 2 WHERE job_id = :running;

-- fault: legal_transitions on queued
INSERT INTO job_events (org_id, job_id, event_seq, event_id, event_type, occurred_at, actor_type, payload_json, trace_id, request_id)
SELECT org_id, job_id, event_seq + 1, 'e', 'job.lease_lost', occurred_at, actor_type, '{}', '', ''
FROM job_events WHERE job_id = :queued ORDER BY event_seq DESC LIMIT 1;
UPDATE jobs SET event_seq = event_seq + 1 WHERE job_id = :queued;

-- fault: legal_transitions on canceled
UPDATE job_events SET event_seq = 3 WHERE job_id = :canceled AND event_seq = 2;
INSERT INTO job_events (org_id, job_id, event_seq, event_id, event_type, occurred_at, actor_type, payload_json, trace_id, request_id)
SELECT org_id, job_id, 2, 'e', 'job.progress', occurred_at, actor_type, '{"progress_percent":0}', '', ''
FROM job_events WHERE job_id = :canceled ORDER BY event_seq DESC LIMIT 1;
UPDATE jobs SET event_seq = event_seq + 1 WHERE job_id = :canceled;

-- fault: nothing_after_end on plain, also progress_never_falls
INSERT INTO job_events (org_id, job_id, event_seq, event_id, event_type, occurred_at, actor_type, payload_json, trace_id, request_id)
SELECT org_id, job_id, event_seq + 1, 'e', 'job.progress', occurred_at, actor_type, '{"progress_percent":100}', '', ''
FROM job_events WHERE job_id = :plain ORDER BY event_seq DESC LIMIT 1;
UPDATE jobs SET event_seq = event_seq + 1 WHERE job_id = :plain;

-- fault: nothing_after_end on canceled
INSERT INTO job_events (org_id, job_id, event_seq, event_id, event_type, occurred_at, actor_type, payload_json, trace_id, request_id)
SELECT org_id, job_id, event_seq + 1, 'e', 'job.released', occurred_at, actor_type, '{}', '', ''
FROM job_events WHERE job_id = :canceled ORDER BY event_seq DESC LIMIT 1;
UPDATE jobs SET event_seq = event_seq + 1 WHERE job_id = :canceled;

-- fault: one_final_event on canceled, also nothing_after_end
INSERT INTO job_events (org_id, job_id, event_seq, event_id, event_type, occurred_at, actor_type, payload_json, trace_id, request_id)
SELECT org_id, job_id, event_seq + 1, 'e', 'job.canceled', occurred_at, actor_type, '{}', '', ''
FROM job_events WHERE job_id = :canceled ORDER BY event_seq DESC LIMIT 1;
UPDATE jobs SET event_seq = event_seq + 1 WHERE job_id = :canceled;

-- fault: one_final_event on failed, also state_matches_events
DELETE FROM job_events WHERE job_id = :failed AND event_type = 'job.failed';
UPDATE jobs SET event_seq = event_seq - 1 WHERE job_id = :failed;

-- fault: state_matches_events on released
UPDATE jobs SET status = 'partial' WHERE job_id = :released;

-- fault: progress_never_falls on completed
UPDATE job_events SET payload_json = json_set(payload_json, '$.progress_percent', 50)
WHERE job_id = :completed AND event_type = 'job.progress';

-- fault: progress_never_falls on running, also progress_bounds
UPDATE job_events SET payload_json = json_set(payload_json, '$.progress_percent', 100)
WHERE job_id = :running AND event_type = 'job.progress';
UPDATE jobs SET progress_percent = 100 WHERE job_id = :running;

-- fault: progress_told on running
UPDATE jobs SET progress_percent = 60 WHERE job_id = :running;

-- fault: progress_told on running
UPDATE job_events SET payload_json = '{}' WHERE job_id = :running AND event_type = 'job.progress';

-- fault: snapshots_told on stopped, also results_named
UPDATE job_events SET payload_json = json_set(payload_json, '$.result_seq', 4)
WHERE job_id = :stopped AND event_type = 'job.partial';

-- fault: snapshots_told on plain, also results_named
UPDATE job_events SET payload_json = json_set(payload_json, '$.result_id', 'other')
WHERE job_id = :plain AND event_type = 'job.completed';

-- fault: snapshots_told on partial, also results_named
INSERT INTO job_events (org_id, job_id, event_seq, event_id, event_type, occurred_at, actor_type, payload_json, trace_id, request_id)
SELECT org_id, job_id, event_seq + 1, 'e', 'job.partial', occurred_at, actor_type,
    '{"result_id":"x","result_seq":3,"progress_percent":30}', '', ''
FROM job_events WHERE job_id = :partial ORDER BY event_seq DESC LIMIT 1;
UPDATE jobs SET event_seq = event_seq + 1 WHERE job_id = :partial;

-- fault: attempts_told on recovered
UPDATE jobs SET attempt = 3 WHERE job_id = :recovered;

-- fault: retries_told on retrying
UPDATE jobs SET retry_count = 2 WHERE job_id = :retrying;

-- fault: limits_told on running
UPDATE jobs SET limit_reached = 'events' WHERE job_id = :running;

-- fault: limits_told on released
UPDATE job_events SET payload_json = replace(payload_json, '}', ',"limit":"partials"}')
WHERE job_id = :released AND event_type = 'job.progress';

-- fault: no_secrets on failed
UPDATE jobs SET error_message = 'cannot log in with password=hunter22' WHERE job_id = :failed;

-- fault: no_secrets on retrying
UPDATE jobs SET retry_reason = 'https://me:hunter22@host/' WHERE job_id = :retrying;

-- fault: no_secrets on running
UPDATE job_events SET payload_json = json_set(payload_json, '$.step', 'Bearer abcdefgh12345678')
WHERE job_id = :running AND event_type = 'job.progress';

-- fault: no_secrets on running
UPDATE job_events SET payload_json = json_set(payload_json, '$.api_key', 'plain')
WHERE job_id = :running AND event_type = 'job.progress';

-- fault: no_secrets on running
UPDATE job_events SET payload_json = json_set(payload_json, '$.step', 'Bearer' || char(10) || 'abcdefgh12345678')
WHERE job_id = :running AND event_type = 'job.progress';

-- fault: ended_has_time on plain
UPDATE jobs SET finished_at = NULL WHERE job_id = :plain;

-- fault: ended_has_time on running, in postgres also kept_marks
UPDATE jobs SET finished_at = attempt_started_at WHERE job_id = :running;

-- fault: times_ordered on plain
UPDATE jobs SET queued_at = finished_at + 1 WHERE job_id = :plain;

-- fault: times_ordered on plain
UPDATE jobs SET finished_at = attempt_started_at - 1 WHERE job_id = :plain;

-- fault: attempt_has_start on plain
UPDATE jobs SET started_at = NULL WHERE job_id = :plain;

-- fault: progress_bounds on plain, also progress_told
UPDATE jobs SET progress_percent = 99 WHERE job_id = :plain;

-- fault: cancel_fields on canceled
UPDATE jobs SET cancel_reason = NULL WHERE job_id = :canceled;

-- fault: cancel_fields on plain
UPDATE jobs SET canceled_by = 'user' WHERE job_id = :plain;

-- fault: cancel_fields on queued
UPDATE jobs SET cancel_requested_at = 1 WHERE job_id = :queued;

-- fault: cancel_fields on running
UPDATE jobs SET cancel_requested_at = 1 WHERE job_id = :running;

-- fault: cancel_fields on retrying
UPDATE jobs SET cancel_requested_at = 1, canceled_by = 'user' WHERE job_id = :retrying;

-- fault: error_fields on failed
UPDATE jobs SET error_code = NULL WHERE job_id = :failed;

-- fault: error_fields on plain
UPDATE jobs SET retry_hint = 'retry_with_backoff' WHERE job_id = :plain;

-- fault: retry_limit on retrying
UPDATE jobs SET max_retries = 0 WHERE job_id = :retrying;

-- fault: input_kept on queued
UPDATE job_inputs SET payload = NULL WHERE job_id = :queued;

-- fault: lease_or_next_attempt on running, also lane_counts
UPDATE jobs SET worker_id = NULL, lease_expires_at = NULL, deadline_at = NULL WHERE job_id = :running;

-- fault: lease_or_next_attempt on running, also lane_due
UPDATE jobs SET next_attempt_at = 1 WHERE job_id = :running;

-- fault: no_lease_at_rest on queued, also lane_counts
UPDATE jobs SET worker_id = 'w', lease_expires_at = 9000000000000000, deadline_at = 9000000000000000 WHERE job_id = :queued;

-- fault: no_lease_at_rest on plain, also lane_due
UPDATE jobs SET next_attempt_at = 1 WHERE job_id = :plain;

-- fault: code_hash on the store
INSERT INTO codes (code, analysis, version, code_hash, langlauf, python, host)
VALUES (7, 'survey', '2026.3', 'abc', '0.1', '3.12', 'a');

-- fault: code_known on plain
UPDATE jobs SET code = 7 WHERE job_id = :plain;

-- fault: source_key on plain
INSERT INTO job_chunks (org_id, job_id, chunk_key, payload, created_at)
SELECT org_id, job_id, 'langlauf:source:0', '{"name":"Register","version": null,"hash": null,"url": null}', queued_at
FROM jobs WHERE job_id = :plain;

-- fault: source_key on plain
INSERT INTO job_chunks (org_id, job_id, chunk_key, payload, created_at)
SELECT org_id, job_id, 'langlauf:source:0', '["Register"]', queued_at FROM jobs WHERE job_id = :plain;

-- fault: no_secrets on plain
INSERT INTO job_chunks (org_id, job_id, chunk_key, payload, created_at)
SELECT org_id, job_id, 'langlauf:source:4ac485e946aff209d2e0ea0ce03b7c18',
    '{"name":"Register","version": null,"hash": null,"url": "https://reader:letmein@example.org/"}', queued_at
FROM jobs WHERE job_id = :plain;

-- fault: paused_starts on running
INSERT INTO pauses (org_id, analysis, paused_at, because)
SELECT '', analysis, attempt_started_at - 1, 'the source is down' FROM jobs WHERE job_id = :running;
DELETE FROM pauses WHERE analysis <> (SELECT analysis FROM jobs WHERE job_id = :running);

-- fault: lease_overdue on running
UPDATE leases SET expires_at = 1 WHERE job_id = :running;

-- fault: partial_count on completed, also snapshots_told, in postgres also results_named
UPDATE jobs SET partial_count = 3 WHERE job_id = :completed;

-- fault: partial_count on stopped, also newest_result results_named
DELETE FROM job_results WHERE job_id = :stopped;

-- fault: result_sequence on completed, also results_named
UPDATE job_results SET result_seq = 9 WHERE job_id = :completed AND result_kind = 'final';

-- fault: one_final_result on plain, also newest_result results_named
DELETE FROM job_results WHERE job_id = :plain;

-- fault: one_final_result on stopped, also partial_count
UPDATE job_results SET result_kind = 'final' WHERE job_id = :stopped;

-- fault: one_final_result on plain, also newest_result schema_intact
DROP INDEX idx_job_results_final;
INSERT INTO job_results (org_id, result_id, job_id, result_kind, result_seq, schema_version, result_payload_ref, created_at,
    summary_json, removed_at, payload, views, schema_text)
SELECT org_id, 'twin', job_id, 'final', 2, schema_version, result_payload_ref, created_at, NULL, NULL, '1', NULL, NULL
FROM job_results WHERE job_id = :plain;

-- fault: newest_result on completed, also snapshots_told, in sqlite only
UPDATE jobs SET result_id = (SELECT result_id FROM job_results AS r WHERE r.job_id = :completed AND result_seq = 1)
WHERE job_id = :completed;

-- fault: newest_result on completed, also results_named, in postgres only
-- The event of the end says what the job says.
UPDATE jobs SET result_id = (SELECT result_id FROM job_results AS r WHERE r.job_id = :completed AND result_seq = 1)
WHERE job_id = :completed;

-- fault: newest_result on queued, also snapshots_told
UPDATE jobs SET result_id = 'nowhere' WHERE job_id = :queued;

-- fault: retired_after_end on running
UPDATE jobs SET result_expired_at = 1 WHERE job_id = :running;

-- fault: retired_after_end on plain, also kept_marks
UPDATE jobs SET events_expired_at = 1 WHERE job_id = :plain;

-- fault: retired_after_end on plain, also kept_marks
UPDATE jobs SET result_expired_at = 1 WHERE job_id = :plain;

-- fault: retired_after_end on plain
UPDATE job_results SET removed_at = 1, payload = NULL WHERE job_id = :plain;

-- fault: in_app_message on failed
DELETE FROM delivery_attempts WHERE job_id = :tried;
UPDATE outbox SET channel = 'in_app', lane = NULL, endpoint_id = NULL, claimed_until = NULL,
    dedupe_key = :failed || ':in_app:' || template_key, job_id = :failed
WHERE job_id = :tried AND template_key = 'async.job.queued' AND lane = (SELECT min(lane) FROM outbox AS one WHERE one.job_id = :tried);

-- fault: in_app_message on canceled
UPDATE jobs SET read_at = 1 WHERE job_id = :canceled;

-- fault: message_keys on given_up
UPDATE outbox SET dedupe_key = 'other' WHERE job_id = :given_up;

-- fault: lane_counts on the store
UPDATE lanes SET waiting = 5 WHERE analysis = (SELECT analysis FROM jobs WHERE job_id = :queued);

-- fault: lane_counts on the store, also lane_due
DELETE FROM lanes;

-- fault: lane_counts on the store
UPDATE waiting_counts SET waiting = waiting + 1;

-- fault: lane_counts on the store, in sqlite only
UPDATE analyses SET running = running + 1 WHERE analysis = (SELECT analysis FROM job_rows WHERE job_id = :running);

-- fault: kept_marks on plain
UPDATE jobs SET kept = 2 WHERE job_id = :plain;

-- fault: kept_marks on plain
UPDATE jobs SET kept = 1 WHERE job_id = :plain;

-- fault: feed_places on plain, in sqlite only
UPDATE event_rows SET feed_at = NULL WHERE job = (SELECT job FROM job_rows WHERE job_id = :plain) AND event_type = 'job.completed';

-- fault: feed_places on running, in sqlite only
UPDATE event_rows SET feed_at = 1 WHERE job = (SELECT job FROM job_rows WHERE job_id = :running) AND event_type = 'job.progress';

-- fault: feed_places on the store, in sqlite only, in sqlite also schema_intact
DROP INDEX idx_job_events_feed;
UPDATE event_rows SET feed_at = 1 WHERE job = (SELECT job FROM job_rows WHERE job_id = :completed) AND feed_at IS NOT NULL;

-- fault: lane_due on retrying
UPDATE lanes SET due_at = due_at + 1 WHERE analysis = (SELECT analysis FROM jobs WHERE job_id = :retrying);

-- fault: lane_due on released, in postgres only
UPDATE lanes SET back_at = NULL WHERE analysis = (SELECT analysis FROM jobs WHERE job_id = :released);

-- fault: lane_counts on the store, in postgres only
UPDATE waiting_counts SET leased = leased + 1;

-- fault: lane_due on released
UPDATE lanes SET due_at = NULL WHERE analysis = (SELECT analysis FROM jobs WHERE job_id = :released);

-- fault: start_times on running
UPDATE jobs SET run_at = started_at + 1 WHERE job_id = :running;

-- fault: start_times on running
UPDATE jobs SET start_by = started_at - 2000000 WHERE job_id = :running;

-- fault: start_times on queued, also lane_counts lane_due
UPDATE jobs SET ticket = -5 WHERE job_id = :queued;

-- fault: lane_due on queued, also lane_counts
UPDATE jobs SET ticket = -5, run_at = 5 WHERE job_id = :queued;

-- fault: lane_counts on the store
UPDATE lanes SET scheduled = 1 WHERE analysis = (SELECT analysis FROM jobs WHERE job_id = :queued);

-- fault: lane_counts on the store
UPDATE waiting_counts SET scheduled = scheduled + 1;

-- fault: lane_tickets on the store, also lane_counts first_event input_kept
-- Two jobs of a lane that have the same ticket; nobody has told the lane and the log of the second one.
CREATE TABLE twins AS SELECT * FROM jobs WHERE job_id = :queued;
UPDATE twins SET job_id = 'twin';
INSERT INTO jobs SELECT * FROM twins;

-- fault: lane_tickets on queued, in postgres only
UPDATE lanes SET default_head = default_last WHERE analysis = (SELECT analysis FROM jobs WHERE job_id = :queued);

-- fault: lane_tickets on queued, in postgres only
UPDATE jobs SET ticket = ticket + 1 WHERE job_id = :queued;

-- fault: idempotency_keys on queued, in postgres only
UPDATE idempotency_keys SET payload_hash = 'other' WHERE job_id = :queued;

-- fault: orphans on canceled, in postgres only
DELETE FROM jobs WHERE job_id = :canceled;

-- fault: orphans on the store, in sqlite only
DELETE FROM jobs WHERE job_id = :canceled;

-- fault: orphans on the store, in sqlite only
INSERT INTO orgs (org_id) VALUES ('other');
UPDATE event_rows SET org = (SELECT org FROM orgs WHERE org_id = 'other')
WHERE job = (SELECT job FROM job_rows WHERE job_id = :failed) AND event_seq = 2;

-- fault: orphans on the store, in sqlite only
INSERT INTO orgs (org_id) VALUES ('other');
UPDATE chunk_rows SET org = (SELECT org FROM orgs WHERE org_id = 'other');
UPDATE key_rows SET org = (SELECT org FROM orgs WHERE org_id = 'other');

-- fault: orphans on queued, in sqlite only, in sqlite also lane_counts
UPDATE job_rows SET analysis = 9999 WHERE job_id = :queued;

-- fault: orphans on the store, in sqlite only
INSERT INTO inputs (job, input) VALUES (9999, '{}');

-- fault: schema_intact on the store, in sqlite only
DROP INDEX idx_jobs_error_code;

-- fault: schema_intact on the store, in sqlite only
DROP VIEW messages;
CREATE VIEW messages AS SELECT * FROM outbox;

-- fault: schema_intact on the store
DROP INDEX idx_jobs_lane_head;

-- fault: known_values on queued
UPDATE jobs SET priority_class = 'royal' WHERE job_id = :queued;

-- fault: known_values on queued
UPDATE jobs SET lost_count = -1 WHERE job_id = :queued;

-- fault: known_values on queued
UPDATE job_events SET actor_type = 'ghost' WHERE job_id = :queued;

-- fault: known_values on plain
UPDATE job_results SET payload = NULL WHERE job_id = :plain;

-- fault: known_values on given_up
UPDATE outbox SET delivery_status = 'lost' WHERE job_id = :given_up;

-- fault: payload_hash on queued, in postgres also idempotency_keys
UPDATE jobs SET request_payload_hash = (SELECT request_payload_hash FROM jobs AS other WHERE other.job_id = :failed)
WHERE job_id = :queued;

-- fault: known_values on queued, in sqlite only, in sqlite also payload_hash
UPDATE job_rows SET payload_hash = x'00' WHERE job_id = :queued;

-- fault: known_values on running, in sqlite only
UPDATE job_rows SET worker_id = NULL WHERE job_id = :running;

-- fault: input_kept on queued, in sqlite only
INSERT INTO inputs (job, input) SELECT job, input FROM job_rows WHERE job_id = :queued;

-- fault: payload_hash on failed
UPDATE job_inputs SET payload = '{"query":"elsewhere"}' WHERE job_id = :failed;

-- fault: error_codes on failed
UPDATE jobs SET error_code = 'Not_Snake' WHERE job_id = :failed;

-- fault: json_values on failed
UPDATE jobs SET error_meta = '{' WHERE job_id = :failed;

-- fault: json_values on completed
UPDATE job_results SET payload = '{' WHERE job_id = :completed;

-- fault: json_values on completed
UPDATE job_results SET views = '{' WHERE job_id = :completed;

-- fault: results_named on completed, also snapshots_told
UPDATE job_events SET payload_json = json_set(payload_json, '$.result_id', 'elsewhere')
WHERE job_id = :completed AND event_type = 'job.completed';

-- fault: blobs_unchecked on the store
UPDATE job_results SET payload = NULL, result_payload_ref = 'blob:sha256:0000000000000000000000000000000000000000000000000000000000000000:5'
WHERE job_id = :plain AND result_kind = 'final';

-- fault: known_values on plain, also blobs_unchecked
UPDATE job_results SET result_payload_ref = 'blob:sha256:0000000000000000000000000000000000000000000000000000000000000000:5'
WHERE job_id = :plain AND result_kind = 'final';

-- fault: wishes_told on arrived
DELETE FROM delivery_attempts
WHERE notification_id = (SELECT notification_id FROM outbox WHERE job_id = :arrived AND channel = 'email');
DELETE FROM outbox WHERE job_id = :arrived AND channel = 'email';

-- fault: wishes_told on given_up
UPDATE outbox SET created_at = created_at - 1 WHERE job_id = :given_up AND channel = 'webhook';

-- fault: wishes_told on canceled
INSERT INTO job_wishes SELECT org_id, :canceled, channel, target, lane, language FROM job_wishes WHERE job_id = :given_up;

-- fault: message_receivers on waits
UPDATE webhook_endpoints SET org_id = 'org-b' WHERE disabled_at IS NULL;
DELETE FROM delivery_attempts WHERE job_id = :tried;
DELETE FROM outbox WHERE job_id = :tried AND channel = 'webhook';

-- fault: message_receivers on given_up
UPDATE outbox SET lane = 'elsewhere' WHERE job_id = :given_up AND channel = 'webhook';

-- fault: message_receivers on tried
UPDATE outbox SET lane = 'elsewhere'
WHERE job_id = :tried AND channel = 'webhook' AND template_key = 'async.job.completed';

-- fault: message_receivers on arrived
DELETE FROM job_wishes WHERE job_id = :arrived AND channel = 'email';

-- fault: delivery_states on arrived
UPDATE outbox SET sent_at = NULL WHERE job_id = :arrived AND channel = 'email';

-- fault: delivery_states on waits
UPDATE outbox SET lane = NULL WHERE job_id = :waits AND channel = 'email';

-- fault: delivery_states on waits, also message_receivers wishes_told
UPDATE outbox SET target = NULL WHERE job_id = :waits AND channel = 'email';

-- fault: delivery_states on given_up
UPDATE outbox SET claimed_until = scheduled_at WHERE job_id = :given_up AND channel = 'webhook';

-- fault: delivery_states on given_up
UPDATE outbox SET tries_from = 2 WHERE job_id = :given_up AND channel = 'webhook';

-- fault: delivery_states on plain, also in_app_message
DELETE FROM delivery_attempts WHERE job_id = :tried;
UPDATE outbox SET channel = 'in_app', lane = NULL, endpoint_id = NULL, claimed_until = scheduled_at,
    dedupe_key = :plain || ':in_app:' || template_key, job_id = :plain
WHERE job_id = :tried AND template_key = 'async.job.queued' AND lane = (SELECT min(lane) FROM outbox AS one WHERE one.job_id = :tried);

-- fault: delivery_log on arrived
DELETE FROM delivery_attempts WHERE job_id = :arrived;

-- fault: delivery_log on arrived
UPDATE delivery_attempts SET status_code = 302 WHERE job_id = :arrived AND status_code IS NOT NULL;

-- fault: delivery_log on given_up
UPDATE outbox SET attempt_count = 0 WHERE job_id = :given_up;

-- fault: deliveries_overdue on the store
UPDATE outbox SET scheduled_at = scheduled_at - 90000000, claimed_until = NULL WHERE job_id = :waits AND channel = 'email';

-- fault: no_secrets on given_up
UPDATE delivery_attempts SET reply = 'Authorization: Bearer abcdefghijklmnopqrstuvwxyz0123456789' WHERE job_id = :given_up;

-- fault: no_secrets on given_up
UPDATE outbox SET last_error = 'password=hunter2hunter2' WHERE job_id = :given_up;

-- fault: message_keys on tried
UPDATE outbox SET dedupe_key = job_id || ':webhook:async.job.partial:' || endpoint_id || ':0'
WHERE job_id = :tried AND template_key = 'async.job.partial' AND delivery_status = 'pending';

-- fault: orphans on given_up, also wishes_told delivery_log
DELETE FROM outbox WHERE job_id = :given_up AND channel = 'webhook';

-- fault: known_values on given_up
UPDATE delivery_attempts SET status = 'lost' WHERE job_id = :given_up;

-- fault: known_values on the store
UPDATE webhook_endpoints SET subjects = ',completed,moon,' WHERE disabled_at IS NULL;

-- fault: known_values on the store
UPDATE mail_marks SET address = 'Gone@mail.example';

-- fault: known_values on the store
UPDATE delivery_lanes SET failures = 0 WHERE lane = 'https://hook.example';

-- fault: planned_once on running
UPDATE jobs SET schedule = 'one' WHERE job_id = :running;

-- fault: planned_once on running
UPDATE jobs SET schedule = 'one', planned_at = queued_at + 1 WHERE job_id = :running;

-- fault: planned_once on the store
UPDATE jobs SET schedule = 'one', planned_at = 5 WHERE job_id = :running OR job_id = :queued;

-- fault: schedule_times on the store
INSERT INTO schedules (org_id, name, analysis, input, cron, zone, overlap, missed, paused, source, created_at, updated_at, next_run_at, last_run_at)
VALUES ('org-a', 'one', 'survey', '{}', '0 6 * * *', 'UTC', 'skip', 'once', false, 'api', 1, 1, 9000000000000000, 9000000000000000);

-- fault: schedules_overdue on the store
INSERT INTO schedules (org_id, name, analysis, input, cron, zone, overlap, missed, paused, source, created_at, updated_at, next_run_at)
VALUES ('org-a', 'one', 'survey', '{}', '0 6 * * *', 'UTC', 'skip', 'once', false, 'api', 1, 1, 1);

-- fault: json_values on the store
INSERT INTO schedules (org_id, name, analysis, input, cron, zone, overlap, missed, paused, source, created_at, updated_at, next_run_at)
VALUES ('org-a', 'one', 'survey', '{', '0 6 * * *', 'UTC', 'skip', 'once', false, 'api', 1, 1, 9000000000000000);
