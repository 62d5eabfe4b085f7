-- What nobody may do, whatever statement is run. The conditions are part of the triggers: a legal change calls no function. They look
-- after the change: a trigger that looks before it would lock every row once more.

CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '%', TG_ARGV[0] USING ERRCODE = 'integrity_constraint_violation';
END $$;

CREATE TRIGGER jobs_are_born_queued BEFORE INSERT ON job_rows FOR EACH ROW
WHEN (NEW.status <> 'queued' AND NEW.imported_at IS NULL AND current_setting('langlauf.copying', true) IS DISTINCT FROM 'on')
EXECUTE FUNCTION refuse('illegal transition: a job starts as queued');

CREATE TRIGGER jobs_change_legally AFTER UPDATE OF status ON job_rows FOR EACH ROW
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

CREATE TRIGGER api_keys_stay_what_they_are BEFORE UPDATE OF key_id, org_id, secret_hash, scopes, created_at, expires_at ON api_keys
FOR EACH STATEMENT
EXECUTE FUNCTION refuse('a key does not change: make another one');

CREATE TRIGGER api_keys_stay_revoked BEFORE UPDATE OF revoked_at ON api_keys FOR EACH ROW
WHEN (OLD.revoked_at IS NOT NULL)
EXECUTE FUNCTION refuse('a key that was revoked stays revoked');

-- What goes is taken away, or leaves the input; what comes may find it there.
CREATE TRIGGER job_events_are_appended
BEFORE UPDATE OF org_id, job, event_seq, event_id, event_type, occurred_at, actor_type, payload_json, trace_id, request_id
ON event_rows FOR EACH ROW
WHEN (OLD.event_type IS NOT NULL AND NEW.event_type IS NOT NULL)
EXECUTE FUNCTION refuse('events are append-only');

-- What a job that comes from elsewhere still has follows from the rest of its row.
CREATE OR REPLACE FUNCTION note_kept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.kept := (NEW.events_expired_at IS NULL)::integer + 2 * (NEW.result IS NOT NULL AND NEW.result_expired_at IS NULL)::integer;
    RETURN NEW;
END $$;

CREATE TRIGGER jobs_note_what_is_kept BEFORE INSERT ON job_rows FOR EACH ROW WHEN (NEW.finished_at IS NOT NULL)
EXECUTE FUNCTION note_kept();
