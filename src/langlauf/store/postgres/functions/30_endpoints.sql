-- Adds an endpoint unless the org has reached its limit; an advisory lock per org serialises this.
CREATE OR REPLACE FUNCTION add_endpoint(at bigint, org text, endpoint text, address text, title text, wanted text, most integer)
RETURNS SETOF endpoint_views LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('langlauf endpoints ' || org, 0));
    INSERT INTO webhook_endpoints (org_id, endpoint_id, url, name, subjects, created_at, version)
    SELECT org, endpoint, address, title, wanted, moment(at), 1
    WHERE (SELECT count(*) FROM webhook_endpoints AS one WHERE one.org_id = org) < most
    ON CONFLICT DO NOTHING;
    IF FOUND THEN
        RETURN QUERY SELECT made.* FROM endpoint_views AS made WHERE made.org_id = org AND made.endpoint_id = endpoint;
    END IF;
END $$;

-- Fails the waiting messages of an endpoint that is disabled or removed. One that is being sent may still arrive, unrecorded.
-- Locked messages are skipped: the next claim fails them.
CREATE OR REPLACE FUNCTION give_up_waiting(org text, endpoint text, reason text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    WITH waiting AS (
        SELECT org_id, notification_id FROM outbox
        WHERE org_id = org AND lane = endpoint AND endpoint_id = endpoint AND delivery_status = 'pending' AND channel <> 'in_app'
        ORDER BY scheduled_at FOR UPDATE SKIP LOCKED)
    UPDATE outbox AS message SET delivery_status = 'failed', last_error = reason, claimed_until = NULL
    FROM waiting
    WHERE message.notification_id = waiting.notification_id AND message.org_id = waiting.org_id AND message.delivery_status = 'pending';
END $$;

-- Lanes are locked before endpoints, here and in `finish_delivery`.
CREATE OR REPLACE FUNCTION change_endpoint(
    at bigint, org text, endpoint text, title text, wanted text, enable boolean, reason text, rotate bigint
) RETURNS SETOF endpoint_views LANGUAGE plpgsql AS $$
DECLARE
    now CONSTANT bigint := moment(at);
BEGIN
    IF enable IS NOT NULL THEN
        DELETE FROM delivery_lanes WHERE org_id = org AND lane = endpoint;
    END IF;
    UPDATE webhook_endpoints SET
        name = coalesce(title, name),
        subjects = coalesce(wanted, subjects),
        version = version + (rotate IS NOT NULL)::integer,
        former_until = CASE WHEN rotate IS NOT NULL THEN now + rotate ELSE former_until END,
        disabled_at = CASE WHEN enable THEN NULL WHEN NOT enable THEN coalesce(disabled_at, now) ELSE disabled_at END,
        disabled_reason = CASE WHEN enable THEN NULL WHEN NOT enable THEN coalesce(disabled_reason, reason) ELSE disabled_reason END
    WHERE org_id = org AND endpoint_id = endpoint;
    IF FOUND AND NOT enable THEN
        PERFORM give_up_waiting(org, endpoint, 'the endpoint is disabled: ' || reason);
    END IF;
    RETURN QUERY SELECT changed.* FROM endpoint_views AS changed WHERE changed.org_id = org AND changed.endpoint_id = endpoint;
END $$;

CREATE OR REPLACE FUNCTION remove_endpoint(org text, endpoint text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM delivery_lanes WHERE org_id = org AND lane = endpoint;
    DELETE FROM webhook_endpoints WHERE org_id = org AND endpoint_id = endpoint;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM give_up_waiting(org, endpoint, 'the endpoint was removed');
    RETURN true;
END $$;

-- query: read_endpoints() RETURNS SETOF endpoint_views
SELECT one.* FROM endpoint_views AS one WHERE one.org_id = org ORDER BY one.created_at, one.endpoint_id;
