-- Constraints over changes. Their conditions are part of the triggers, so a legal change calls no function. They run after the
-- change: a BEFORE trigger would lock every row once more.

CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '%', TG_ARGV[0] USING ERRCODE = 'integrity_constraint_violation';
END $$;

CREATE TRIGGER jobs_start_queued BEFORE INSERT ON job_rows FOR EACH ROW
WHEN (NEW.status <> 'queued' AND NEW.imported_at IS NULL
    -- A job may begin its first attempt with its submission: the lease and both events are there.
    AND (NEW.status = 'running' AND NEW.attempt = 1 AND NEW.event_seq = 2 AND NEW.started_at = NEW.queued_at
        AND NEW.lease_expires_at > NEW.started_at AND NEW.claim_id IS NOT NULL) IS NOT TRUE
    AND current_setting('langlauf.copying', true) IS DISTINCT FROM 'on')
EXECUTE FUNCTION refuse('illegal transition: a job starts as queued');

CREATE TRIGGER jobs_transition AFTER UPDATE OF status ON job_rows FOR EACH ROW
WHEN (OLD.status <> NEW.status AND NOT CASE OLD.status
    WHEN 'running' THEN NEW.status <> 'queued'
    WHEN 'queued' THEN NEW.status IN ('running', 'canceled')
    WHEN 'partial' THEN NEW.status NOT IN ('queued', 'running')
    ELSE false END)
EXECUTE FUNCTION refuse('illegal transition');

CREATE TRIGGER jobs_stay_ended AFTER UPDATE OF
    status, progress_percent, partial_count, result, finished_at, error_code, canceled_at, attempt, event_seq, next_attempt_at
ON job_rows FOR EACH ROW
WHEN (OLD.finished_at IS NOT NULL)
EXECUTE FUNCTION refuse('a job that has ended does not change');

CREATE TRIGGER api_keys_stay BEFORE DELETE ON api_keys FOR EACH STATEMENT
EXECUTE FUNCTION refuse('a key is revoked, never removed');

CREATE TRIGGER api_keys_are_immutable BEFORE UPDATE OF key_id, org_id, secret_hash, scopes, created_at, expires_at ON api_keys
FOR EACH STATEMENT
EXECUTE FUNCTION refuse('a key does not change: make another one');

CREATE TRIGGER api_keys_stay_revoked BEFORE UPDATE OF revoked_at ON api_keys FOR EACH ROW
WHEN (OLD.revoked_at IS NOT NULL)
EXECUTE FUNCTION refuse('a key that was revoked stays revoked');

-- Retention deletes events, or clears the type of the first one and leaves the input; an import may fill it again.
CREATE TRIGGER job_events_are_appended
BEFORE UPDATE OF org_id, job, event_seq, event_id, event_type, occurred_at, actor_type, payload_json, trace_id, request_id
ON event_rows FOR EACH ROW
WHEN (OLD.event_type IS NOT NULL AND NEW.event_type IS NOT NULL)
EXECUTE FUNCTION refuse('events are append-only');

-- Derives the final state of an imported job that has ended, and what is kept of it.
CREATE OR REPLACE FUNCTION derive_kept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.final_state := final_state_of(NEW.status);
    NEW.kept := (NEW.events_expired_at IS NULL)::integer + 2 * (NEW.result IS NOT NULL AND NEW.result_expired_at IS NULL)::integer;
    RETURN NEW;
END $$;

CREATE TRIGGER jobs_derive_kept BEFORE INSERT ON job_rows FOR EACH ROW WHEN (NEW.finished_at IS NOT NULL)
EXECUTE FUNCTION derive_kept();
