"""The cost of a call must not grow with the table, also if its plan was made while the table was empty."""

import asyncio
import json
from typing import Any

import asyncpg
import pytest

from tests.support.postgres_stores import migrated_database

#: Jobs of one org, each with its events, snapshots and chunks.
_FILL = """
INSERT INTO jobs (job_id, org_id, analysis, status, priority_class, request_payload_hash, request_payload_ref,
    queued_at, updated_at, timeout_seconds, max_retries, trace_id, request_id, progress_percent, result_id, started_at,
    attempt_started_at, finished_at, attempt, event_seq, partial_count, imported_at)
SELECT 'j' || n, 'org-a', 'survey', 'completed', 'default', encode(sha256(n::text::bytea), 'hex'), 'inline:',
    n, n, 10, 1, 't', 'r', 100,
    'r' || n, n, n, n, 1, 3, 1, 1 FROM generate_series($1::integer, $2::integer) AS n
"""
_PARTS = (
    """INSERT INTO event_rows (org_id, job, event_seq, event_id, event_type, occurred_at, actor_type,
        payload_json, input)
    SELECT org_id, job, seq, gen_random_uuid(), CASE seq WHEN 1 THEN 'job.queued' ELSE 'job.progress' END, 1,
        'worker', '{}', CASE seq WHEN 1 THEN '{}' END
    FROM jobs, generate_series(1, 3) AS seq""",
    """INSERT INTO job_results (org_id, result_id, job_id, result_kind, result_seq, schema_version, result_payload_ref,
        created_at, payload)
    SELECT org_id, CASE seq WHEN 2 THEN result_id ELSE result_id || '-1' END, job_id,
        CASE seq WHEN 2 THEN 'final' ELSE 'partial' END, seq, 1, 'inline:', 1, '1'
    FROM jobs, generate_series(1, 2) AS seq""",
    """INSERT INTO outbox (org_id, job_id, channel, template_key, delivery_status, dedupe_key, scheduled_at,
        created_at, payload_json)
    SELECT org_id, job_id, 'in_app', 'x', 'pending', job_id, 1, 1, '{}' FROM jobs""",
    # Some lanes with as many waiting messages as sent ones, and one endpoint.
    """INSERT INTO outbox (org_id, notification_id, job_id, channel, template_key, delivery_status, dedupe_key,
        scheduled_at, created_at, payload_json, endpoint_id, target, lane)
    SELECT org_id, job_id || state, job_id, 'webhook', 'x', state, job_id || state, 1, queued_at, '{}',
        CASE queued_at % 3 WHEN 0 THEN 'e0' END, 'https://a',
        CASE queued_at % 3 WHEN 0 THEN 'e0' ELSE 'l' || queued_at % 3 END
    FROM jobs, unnest('{pending, sent}'::text[]) AS state""",
    """INSERT INTO delivery_attempts (org_id, notification_id, attempt, job_id, at, seconds, status)
    SELECT org_id, job_id || 'sent', 1, job_id, 1, 1, 'sent' FROM jobs""",
    """INSERT INTO job_chunks (org_id, job_id, chunk_key, payload, created_at)
    SELECT org_id, job_id, 'c', '1', 1 FROM jobs""",
)
_TABLES = (
    *("job_rows", "event_rows", "result_rows", "outbox", "job_chunks", "lanes"),
    *("delivery_attempts", "job_wishes"),
)
_ENOUGH = (100, 3_000)
#: Allowance for a deeper index, or a page that is read twice.
_SLACK = 40
_LATEST = f"{2**62}, ''"
_KINDS = "'{job.queued, job.completed}'"
_CLAIM = "(gen_random_uuid(), 'w', 5, '{survey}', 1000000, 8, '{survey}', '{2}', 4, '{}', '{}')::claim_request"
CALLS = {
    "read_job": "'org-a', 'j7'",
    "read_statuses": "'{org-a, org-b}', '{j7, j7}', '{20, 20}', '{1000, 1000}'",
    "read_payload": "'org-a', 'j7'",
    "read_events": "'org-a', 'j7', 0, 100",
    "read_log": "'org-a', 'j7', 0, 100, 1000",
    "read_feed": f"'org-a', '', 0, 0, '', 0, {_KINDS}, 50, 20, 0",
    "read_feed_mark": f"'org-a', {2**62}",
    "read_feed_end": "'org-a'",
    "read_results": "'org-a', 'j7'",
    "read_result": "'org-a', 'r7-1', true, true",
    "read_notifications": "'org-a', 'j7', NULL, 20",
    "read_jobs": f"'org-a', NULL, 'completed', 'survey', NULL, NULL, 9, 1, {_LATEST}, 50, 20",
    "read_few": "'org-a', 'completed', 50",
    "read_started": "'org-a', 50",
    "read_counts": "'org-a', 50",
    "read_failures": f"'org-a', 0, {_LATEST}, 300, 50",
    "read_inbox": f"'org-a', {_LATEST}, 20",
    "read_unread": "'org-a', 50",
    "mark_read": "NULL, 'org-a', 'nothing', 0",
    "read_ranks": "'org-a'",
    "read_chunk": "'org-a', 'j7', 'c'",
    "read_chunks": "'org-a', 'j7', '{c, d}'",
    "read_kept_parts": "'org-a', 'j7', 1000",
    "read_reruns": "'org-a', 'j7', 5",
    "read_ended": "'org-a', 0, 20",
    "read_queued": "'org-a', 0, 20",
    "read_queues": "'org-a', 20",
    "read_underway": "'org-a', 20",
    "all_ended": "0, 20",
    "all_queued": "0, 20",
    "all_queues": "20",
    "all_underway": "20",
    "all_workers": "",
    "pulses": "'{org-a, org-a}', '{j7, j8}'",
    "org_pulses": "'{org-a, org-b}'",
    "kept_payloads": "'{org-a, org-a}', '{j7, j8}'",
    "owners": "'result', 'r7'",
    "load": "NULL",
    "depth": "NULL",
    "views_of": "'{org-a, org-a}', ARRAY[key_of('j7'), key_of('j8')]",
    "renew": "NULL, '{org-a}', ARRAY[key_of('j7')], '{1}', 1000000",
    "cancel": "NULL, '{org-a}', ARRAY[key_of('j7')], '{user}', '{no}', '{r}'",
    "sweep": "NULL, 0, 0, 1, 1, 3, 100",
    "claim_deliveries": "NULL, 5, 2, 0, 3, true",  # claims that expire at once: the next call finds as much
    "finish_delivery": "NULL, 'org-a', 'j7pending', 0, 'sent', 1, 0, 204, NULL, NULL, NULL, false, NULL",
    "make_lane_due": f"{2**62}, 'org-a', 'e0'",
    "replay": "NULL, 'org-a', NULL, 'e0', 0, false, 20",
    "change_endpoint": "NULL, 'org-a', 'e0', 'other', NULL, NULL, 'why', NULL",
    "subscribe": "'org-a', 'j7', 'email', 'who@mail.example', 'mail', NULL",
    "read_mail_marks": "'org-a', 'who@mail.example'",
    "admit_mail": "NULL, 'org-a', 'j7sent', 1, 'who@mail.example', true, false, 10, 0, 10, 0",
    "read_endpoints": "'org-a'",
    "read_deliveries": f"'org-a', NULL, NULL, NULL, {_LATEST}, 20",
    "read_deliveries of an endpoint": f"'org-a', 'e0', NULL, NULL, {_LATEST}, 20",
    "read_deliveries of a job": f"'org-a', NULL, 'j7', NULL, {_LATEST}, 20",
    "read_deliveries of an endpoint that failed": f"'org-a', 'e0', NULL, 'failed', {_LATEST}, 20",
    "read_deliveries that failed": f"'org-a', NULL, NULL, 'failed', {_LATEST}, 20",
    "read_delivery": "'org-a', 'j7sent'",
    "read_delivery_attempts": "'org-a', 'j7sent', 20",
    "claim": f"NULL, {_CLAIM}, false",
}


async def _blocks(connection: asyncpg.Connection, call: str) -> int:
    """Return how many blocks a call reads."""
    [(told,)] = await connection.fetch(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM {call}")
    plan: dict[str, Any] = json.loads(told)[0]["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


async def _fill(connection: asyncpg.Connection, first: int, last: int) -> None:
    await connection.execute(_FILL, first, last)
    for part in _PARTS:
        await connection.execute(f"{part} WHERE queued_at >= $1", first)


@pytest.mark.parametrize("anew", [False, True], ids=["planned on empty tables", "planned anew"])
def test_the_cost_of_a_call_does_not_grow_with_the_table(*, anew: bool) -> None:
    """Planners go wrong on empty tables, and without statistics."""

    async def main(url: str) -> dict[str, tuple[int, int]]:
        connection = await asyncpg.connect(url)
        try:
            await connection.execute("SET search_path = langlauf, pg_temp; SET jit = off")
            for table in _TABLES:  # statistics would cause new plans, as for a host that starts later
                await connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)")
            seen = list[list[int]]()
            begin = 1
            calls = [f"{name.partition(' ')[0]}({values})" for name, values in CALLS.items()]
            for call in calls:
                await _blocks(connection, call)
            for size in _ENOUGH:
                await _fill(connection, begin, size)
                if anew:
                    await connection.execute("DISCARD PLANS")
                begin = size + 1
                for call in calls:  # the first read after a fill cleans up pages
                    await _blocks(connection, call)
                seen.append([await _blocks(connection, call) for call in calls])
            return {name: (few, many) for name, few, many in zip(CALLS, *seen, strict=True)}
        finally:
            await connection.close()

    with migrated_database() as url:
        found = asyncio.run(main(url))
    grown = {name: blocks for name, blocks in found.items() if blocks[1] > 2 * blocks[0] + _SLACK}
    assert grown == {}, "blocks of a small and of a large table"
