"""What legacy callers find in `public`: two functions and a view, and who may use them."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import asyncpg
import pytest

from langlauf.clock import SystemClock
from langlauf.domain.attempt import Backoff, Claim, ClaimRequest
from langlauf.domain.errors import LanglaufError
from langlauf.domain.instant import after
from langlauf.domain.outcome import CANCEL_MARGIN, MOST_LOST_LEASES, Failed, Retry
from langlauf.hints import Hints
from langlauf.settings import BY_NAME
from langlauf.store.postgres.driver import PostgresStore
from langlauf.store.postgres.snapshot import check_database
from tests.support.postgres import address, execute, fetch, fresh_database, own_server
from tests.support.stores import LEASE_SECONDS, JobFactory, SetClock
from tests.support.submissions import accept

Scene = Callable[[Any, SetClock], Awaitable[None]]
JOB = "SELECT * FROM check_job_timeouts()"
READING = "SELECT * FROM check_reading_timeouts()"
HOUR = 3_600.0
LONG: dict[str, Any] = {"timeout_seconds": 2 * HOUR}


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """A server for these tests, as roles belong to a server."""
    with own_server() as server:
        yield server.url()


@pytest.fixture
def place(cluster: str) -> Iterator[str]:
    """A database on that server, without any role of callers at first."""
    with fresh_database(server=cluster) as url:
        try:
            yield url
        finally:
            for role in ("service_role", "authenticated", "anon", "member", "stranger", "keeper"):
                if fetch(url, "SELECT FROM pg_roles WHERE rolname = $1", role):
                    execute(url, f"REASSIGN OWNED BY {role} TO CURRENT_USER", f"DROP OWNED BY {role}")
                    execute(url, f"DROP ROLE {role}")


def play(url: str, scene: Scene, *, seconds_ago: float = HOUR) -> None:
    """Run a scene on the store, with a clock that is behind the database's."""

    async def main() -> None:
        clock = SetClock(after(SystemClock().now(), -seconds_ago))
        store = await PostgresStore.open(url, hints=Hints(), clock=clock)
        try:
            await scene(store, clock)
        finally:
            await store.close()

    asyncio.run(main())


async def nothing(_store: Any, _clock: SetClock) -> None:
    """Only create the schema."""


async def claimed(
    store: Any, clock: SetClock, slots: int = 1, lease_seconds: float = LEASE_SECONDS, **rules: Any
) -> list[Claim]:
    """Return jobs that a worker holds by the clock of the scene."""
    for _ in range(slots):
        await accept(store, clock, **rules)
    request = ClaimRequest(
        worker_id="w", slots=slots, analyses=("survey",), lease_seconds=lease_seconds, max_running=1_000
    )
    claims: list[Claim] = await store.claim(request)
    assert len(claims) == slots
    return claims


async def overdue(store: Any, clock: SetClock) -> None:
    """Create one job of each kind that a sweep ends, with ids in this order."""
    short: dict[str, Any] = {"timeout_seconds": 1.0}
    for number, rules in enumerate((short, short | {"max_retries": 0}, LONG, LONG)):
        await claimed(store, clock, job_id=f"00000000-0000-4000-8000-00000000000{number}", **rules)
    await JobFactory(store, clock)._ask_to_stop("00000000-0000-4000-8000-000000000003")


def test_nothing_overdue(database: str) -> None:
    """Both return one row with 0 and an empty list, like the legacy function."""
    play(database, nothing)
    for question in (JOB, READING):
        assert [tuple(row) for row in fetch(database, question)] == [(0, [])]
    kinds = fetch(
        database,
        "SELECT proname::text, prosecdef, provolatile::text, proconfig, pg_get_function_result(oid) AS result "
        "FROM pg_proc WHERE pronamespace = 'public'::regnamespace ORDER BY proname",
    )
    expected = (True, "v", ["search_path=langlauf, pg_temp"], "TABLE(updated_count integer, updated_jobs uuid[])")
    assert [tuple(row) for row in kinds] == [("check_job_timeouts", *expected), ("check_reading_timeouts", *expected)]


_LEFT = """
SELECT job.job_id, job.status, job.error_code, job.retry_count, job.lost_count,
    job.next_attempt_at IS NOT NULL AS waits, job.error_message, job.cancel_reason,
    (SELECT array_agg(event_type || ' ' || actor_type || regexp_replace(payload_json, '"next_attempt_at":"[^"]*"', '')
                      ORDER BY event_seq) FROM langlauf.job_events AS event WHERE event.job_id = job.job_id) AS log,
    (SELECT array_agg(template_key) FROM langlauf.notifications AS told WHERE told.job_id = job.job_id) AS told,
    (SELECT count(*) FROM langlauf.leases) AS leases
FROM langlauf.jobs AS job ORDER BY job.job_id
"""


@pytest.mark.parametrize("question", [JOB, READING])
def test_it_is_the_sweep_of_the_program(postgres: str, question: str) -> None:
    """The same jobs have the same ends, events and messages as after a sweep, once each."""

    async def swept(store: Any, clock: SetClock) -> None:
        await overdue(store, clock)
        clock.pass_(HOUR)
        assert len(await store.sweep(grace_seconds=5.0, backoff=Backoff())) == 4

    with fresh_database(server=postgres) as by_program, fresh_database(server=postgres) as by_caller:
        play(by_program, swept)
        play(by_caller, overdue)
        [[count, ids]] = fetch(by_caller, question)
        assert count == 4
        assert [str(one) for one in ids] == [f"00000000-0000-4000-8000-00000000000{number}" for number in range(4)]
        left = [tuple(row) for row in fetch(by_caller, _LEFT)]
        assert left == [tuple(row) for row in fetch(by_program, _LEFT)]
        assert [(row[1], row[2], row[-1]) for row in left] == [
            ("running", None, 0),
            ("failed", "timeout", 0),
            ("running", None, 0),
            ("canceled", None, 0),
        ]
        assert [tuple(row) for row in fetch(by_caller, question)] == [(0, [])]


def test_all_pages_are_swept(database: str) -> None:
    """One call continues until nothing is left, over any number of pages."""

    async def scene(store: Any, clock: SetClock) -> None:
        await claimed(store, clock, slots=130)

    play(database, scene)
    [[count, ids]] = fetch(database, JOB)
    assert (count, len(set(ids))) == (130, 130)


def test_defaults_are_those_of_the_program(database: str) -> None:
    """Grace, backoff and the limit of lost workers are the defaults of the settings."""
    play(database, nothing)
    [[body]] = fetch(database, "SELECT prosrc FROM pg_proc WHERE proname = 'check_job_timeouts'")
    given = {name: float(value) for name, value in re.findall(r"(\w+) => (\d+)", body)}
    grace = BY_NAME["cancel_grace"].default
    assert isinstance(grace, float)
    backoff = Backoff()
    assert given == {
        "grace": after(0, grace),
        "cancel_grace": after(0, grace + CANCEL_MARGIN),
        "retry_base": backoff.base,
        "retry_cap": backoff.cap,
        "most_lost": MOST_LOST_LEASES,
        "most": 100,
    }
    assert (BY_NAME["retry_base"].default, BY_NAME["retry_cap"].default) == (backoff.base, backoff.cap)


def test_the_clock_is_the_database_s(database: str) -> None:
    """A lease that is live by the database's clock stays, although its host's clock disagrees."""

    async def scene(store: Any, clock: SetClock) -> None:
        await claimed(store, clock)
        clock.pass_(-2 * HOUR)

    play(database, scene, seconds_ago=-60)
    assert [tuple(row) for row in fetch(database, JOB)] == [(0, [])]


def test_concurrent_callers_take_each_job_once(database: str) -> None:
    """A second call does not wait for the first, and takes the rest."""
    play(database, overdue)

    async def main() -> None:
        first, second = await asyncpg.connect(database), await asyncpg.connect(database)
        blocked = await asyncpg.connect(database)
        async with blocked.transaction():
            held = "00000000-0000-4000-8000-000000000000"
            await blocked.execute("SELECT FROM langlauf.jobs WHERE job_id = $1 FOR UPDATE", held)
            async with first.transaction():
                [count, ids] = await asyncio.wait_for(first.fetchrow(JOB), 60)
                assert (count, len(ids)) == (3, 3)
                assert tuple(await asyncio.wait_for(second.fetchrow(READING), 60)) == (0, [])
        [count, ids] = await second.fetchrow(READING)
        assert (count, [str(one) for one in ids]) == (1, [held])
        for connection in (first, second, blocked):
            await connection.close()

    asyncio.run(main())


def test_ids_that_are_no_uuids(database: str) -> None:
    """Such jobs, which only an import brings, are ended and counted, but not named or shown."""

    async def scene(store: Any, clock: SetClock) -> None:
        await claimed(store, clock, job_id="job-1")
        await claimed(store, clock, job_id="ABCDEF00-0000-4000-8000-000000000000")
        await claimed(store, clock)

    play(database, scene)
    [[count, ids]] = fetch(database, JOB)
    assert (count, len(ids)) == (3, 1)
    assert [row["id"] for row in fetch(database, "SELECT id FROM reading_jobs")] == ids


async def _every_state(store: Any, clock: SetClock) -> dict[str, str]:
    make = JobFactory(store, clock)
    found = {
        "pending": (await make.queued()).job_id,
        "generating": (await make.running()).lease.job_id,
        "generating, with a part": (await make.partial()).lease.job_id,
        "generating again, network": await make.retrying(),
        "generating again, given back": await make.released(),
        "done": await make.completed(0),
        "failed": await make.failed(),
        "cancelled": await make.canceled(),
    }
    [late] = await claimed(store, clock, lease_seconds=HOUR)
    clock.pass_(1_800)
    retry = Retry(code="timeout", message="Too long.", delay_seconds=1.0, timed_out=True)
    assert await store.record(late.lease, retry)
    [early] = await claimed(store, clock)
    clock.pass_(1)
    own = Retry(code="timeout", message="TimeoutError", delay_seconds=1.0)
    assert await store.record(early.lease, own)
    return found | {"timeout": late.lease.job_id, "timeout of its own": early.lease.job_id}


def test_the_view_has_the_words_of_the_earlier_schema(database: str) -> None:
    """Each state has its word; times are timestamps, codes are in capitals, ids are UUIDs."""
    made: dict[str, str] = {}

    async def scene(store: Any, clock: SetClock) -> None:
        made.update(await _every_state(store, clock))

    play(database, scene, seconds_ago=2 * HOUR)
    rows = {str(row["id"]): row for row in fetch(database, "SELECT * FROM reading_jobs")}
    assert {kind: rows[job_id]["status"] for kind, job_id in made.items()} == {
        kind: re.split(r"\W", kind)[0] for kind in made
    }
    assert len(rows) == len(made)
    late = rows[made["timeout"]]
    assert (late["error_code"], late["retry_count"], late["max_retries"]) == ("TIMEOUT", 1, 3)
    assert late["retry_reason"] == "timeout: Too long."
    assert (late["last_retry_at"] - late["started_at"]).total_seconds() == 1_800
    [[meta]] = fetch(database, "SELECT error_meta FROM reading_jobs WHERE id = $1", late["id"])
    details = json.loads(meta)
    assert re.fullmatch(r"\S+Z \S+Z", f"{details.pop('started_at')} {details.pop('detected_at')}")
    assert details == {"threshold_seconds": 1800, "retry_count": 1, "max_retries": 3}
    assert late["error"] == "Too long."
    own = rows[made["timeout of its own"]]
    assert (own["error_code"], own["error"]) == ("TIMEOUT", "TimeoutError")
    assert json.loads(own["error_meta"]) == {"retry_count": 1, "max_retries": 3}
    failed = rows[made["failed"]]
    assert (failed["error_code"], failed["error"]) == ("VALIDATION_ERROR", "No such place.")
    assert json.loads(failed["error_meta"]) == {"at": 1, "retry_count": 0, "max_retries": 3}
    assert rows[made["pending"]]["started_at"] is None
    generating = rows[made["generating"]]
    assert (generating["error_code"], generating["error_meta"], generating["error"]) == (None, None, None)


def test_public_objects_have_comments(database: str) -> None:
    """Both functions, the view and each of its columns have a comment."""
    play(database, nothing)
    silent = fetch(
        database,
        "SELECT attname FROM pg_attribute WHERE attrelid = 'public.reading_jobs'::regclass AND attnum > 0 "
        "AND col_description(attrelid, attnum) IS NULL UNION ALL "
        "SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace "
        "AND obj_description(oid, 'pg_proc') IS NULL UNION ALL "
        "SELECT relname FROM pg_class WHERE oid = 'public.reading_jobs'::regclass "
        "AND obj_description(oid, 'pg_class') IS NULL",
    )
    assert silent == []


def test_a_worker_lost_after_a_timeout_is_no_timeout(database: str) -> None:
    """The end of the last attempt counts."""

    async def scene(store: Any, clock: SetClock) -> None:
        [claim] = await claimed(store, clock, lease_seconds=HOUR)
        clock.pass_(1_800)
        assert await store.record(
            claim.lease, Retry(code="timeout", message="Too long.", delay_seconds=0, timed_out=True)
        )
        request = ClaimRequest(worker_id="w", slots=1, analyses=("survey",), lease_seconds=1, max_running=1)
        assert len(await store.claim(request)) == 1
        clock.pass_(2)
        assert [one.outcome for one in await store.sweep(grace_seconds=5.0, backoff=Backoff())] == ["lost"]

    play(database, scene)
    assert [tuple(row) for row in fetch(database, "SELECT status, error_code FROM reading_jobs")] == [
        ("generating", None)
    ]


@pytest.mark.parametrize("meta", ['{"a":"\\u0000"}', '{"a":"\\ud800"}', '{"a":1e999999}', "no JSON"])
def test_details_that_jsonb_cannot_hold(database: str, meta: str) -> None:
    """One row with details that jsonb cannot hold does not fail the query."""

    async def scene(store: Any, clock: SetClock) -> None:
        await JobFactory(store, clock).failed()
        [claim] = await claimed(store, clock)
        details = {"trace": "Traceback", "at": 2}
        assert await store.record(claim.lease, Failed(code="x" * 60, message="No.", retryable=False, meta=details))

    play(database, scene)
    execute(database, f"UPDATE langlauf.jobs SET error_meta = $${meta}$$ WHERE error_code = 'validation_error'")
    rows = fetch(database, "SELECT error_code, error_meta FROM reading_jobs ORDER BY created_at")
    counts = {"retry_count": 0, "max_retries": 3}
    assert [(row[0], json.loads(row[1])) for row in rows] == [
        ("VALIDATION_ERROR", counts),
        ("X" * 50, {"at": 2} | counts),
    ]


def test_legacy_objects_are_not_replaced(database: str) -> None:
    """Its table and function are not touched; ours exists beside them."""
    execute(
        database,
        "CREATE TABLE public.reading_jobs (id uuid PRIMARY KEY, status text)",
        "CREATE FUNCTION public.check_reading_timeouts() RETURNS integer LANGUAGE sql AS 'SELECT 42'",
    )
    play(database, nothing)
    assert fetch(
        database, "SELECT check_reading_timeouts() AS it, relkind::text FROM pg_class WHERE relname = 'reading_jobs'"
    )[0] == (42, "r")
    assert [tuple(row) for row in fetch(database, JOB)] == [(0, [])]
    assert {
        row["name"] for row in fetch(database, "SELECT name FROM langlauf.legacy_objects() WHERE name LIKE 'public%'")
    } == {"public.check_job_timeouts()"}


def test_a_dropped_schema_is_created_again(database: str) -> None:
    """What it left in `public` is replaced: the view is back, both functions work, and the schema is intact."""
    play(database, overdue)
    execute(database, "DROP SCHEMA langlauf CASCADE")
    left = fetch(database, "SELECT proname::text FROM pg_proc WHERE pronamespace = 'public'::regnamespace ORDER BY 1")
    assert [row[0] for row in left] == ["check_job_timeouts", "check_reading_timeouts"]
    play(database, overdue)
    [[count, ids]] = fetch(database, READING)
    assert (count, len(ids)) == (4, 4)
    assert len(fetch(database, "SELECT * FROM reading_jobs")) == 4
    assert [tuple(row) for row in fetch(database, JOB)] == [(0, [])]
    assert [one for one in check_database(database) if one.rule == "schema_intact"] == []


def test_a_function_of_others_is_not_replaced(database: str) -> None:
    """The start names it, and creates nothing."""
    execute(database, "CREATE FUNCTION public.check_job_timeouts() RETURNS integer LANGUAGE sql AS 'SELECT 42'")
    with pytest.raises(LanglaufError, match="check_job_timeouts"):
        play(database, nothing)
    assert fetch(database, "SELECT check_job_timeouts()") == [(42,)]
    assert fetch(database, "SELECT to_regnamespace('langlauf')") == [(None,)]


def refused(url: str, role: str, question: str) -> bool:
    """Whether a role may not run this."""
    try:
        as_role(url, role, question)
    except asyncpg.InsufficientPrivilegeError:
        return True
    return False


def as_role(url: str, role: str, question: str) -> list[Any]:
    """Return the rows that a session sees after SET ROLE, as a gateway does."""

    async def main() -> list[Any]:
        connection = await asyncpg.connect(url)
        try:
            async with connection.transaction():
                await connection.execute(f"SET LOCAL ROLE {role}")
                return list(await connection.fetch(question))
        finally:
            await connection.close()

    return asyncio.run(main())


VIEW = "SELECT id, status, error_meta FROM reading_jobs"


def given(url: str) -> set[tuple[str, str]]:
    """Return the rights of others on the view."""
    asked = "SELECT grantee::regrole::text, privilege_type FROM pg_class, aclexplode(relacl)"
    rows = fetch(url, f"{asked} WHERE oid = 'public.reading_jobs'::regclass AND grantee <> relowner")
    return {(row[0], row[1]) for row in rows}


def test_without_roles_nothing_is_granted(place: str) -> None:
    """Without the roles of callers, only the owner may use functions and view."""
    execute(place, "CREATE ROLE stranger LOGIN")
    play(place, overdue)
    for question in (JOB, READING, VIEW):
        assert refused(place, "stranger", question)
    assert fetch(place, "SELECT count(*) FROM langlauf.leases")[0][0] == 4


def test_existing_roles_get_their_rights(place: str) -> None:
    """`service_role` gets ids and reads the view; `authenticated` gets a count, and reads nothing."""
    execute(place, "CREATE ROLE service_role", "CREATE ROLE authenticated", "CREATE ROLE stranger")
    play(place, overdue)
    [[count, ids]] = as_role(place, "authenticated", JOB)
    assert (count, ids) == (4, [])
    assert refused(place, "authenticated", VIEW)
    assert len(as_role(place, "service_role", VIEW)) == 4
    assert given(place) == {("service_role", "SELECT")}
    for question in (JOB, READING, VIEW):
        assert refused(place, "stranger", question)

    async def again(store: Any, clock: SetClock) -> None:
        await claimed(store, clock)

    for question in (JOB, READING):
        play(place, again)
        [[count, ids]] = as_role(place, "service_role", question)
        assert (count, len(ids)) == (1, 1)


@pytest.mark.parametrize(("group", "shown"), [("authenticated", 0), ("service_role", 4)])
def test_a_login_that_is_a_member(place: str, group: str, shown: int) -> None:
    """A login that is a member of a role gets what the role gets."""
    execute(place, "CREATE ROLE service_role", "CREATE ROLE authenticated", f"CREATE ROLE member LOGIN IN ROLE {group}")
    play(place, overdue)
    [[count, ids]] = fetch(address(place, place.rpartition("/")[2], "member"), READING)
    assert (count, len(ids)) == (4, shown)


_OWNERS = """
SELECT proowner::regrole::text FROM pg_proc WHERE pronamespace = 'public'::regnamespace
UNION SELECT relowner::regrole::text FROM pg_class WHERE oid = 'public.reading_jobs'::regclass
"""


@pytest.mark.parametrize(
    ("rights", "owner"),
    [
        ("SELECT", "langlauf_engine"),
        ("ALTER DATABASE {database} OWNER TO keeper", "langlauf_engine"),
        ("GRANT CREATE ON DATABASE {database} TO keeper; GRANT CREATE ON SCHEMA public TO keeper", "keeper"),
    ],
    ids=["superuser", "owner of the database", "somebody else"],
)
def test_owner_of_the_public_functions(place: str, rights: str, owner: str) -> None:
    """The engine's role, whichever login migrates; if it may not grant CREATE on `public`, the login itself.

    The same after the schema was dropped and created again.
    """
    database = place.rpartition("/")[2]
    execute(place, "CREATE ROLE service_role", "CREATE ROLE authenticated", "CREATE ROLE keeper LOGIN CREATEROLE")
    for role in ("langlauf_api", "langlauf_engine"):
        if fetch(place, "SELECT FROM pg_roles WHERE rolname = $1", role):
            execute(place, f"GRANT {role} TO keeper WITH ADMIN OPTION")
    execute(place, rights.format(database=f'"{database}"'))
    login = place if rights == "SELECT" else address(place, database, "keeper")
    for _ in range(2):
        play(login, overdue)
        assert [row[0] for row in fetch(place, _OWNERS)] == [owner]
        assert not fetch(place, "SELECT WHERE has_schema_privilege('langlauf_engine', 'public', 'CREATE')")
        assert len(as_role(place, "service_role", VIEW)) == 4
        assert [tuple(row) for row in as_role(place, "authenticated", JOB)] == [(4, [])]
        execute(login, "DROP SCHEMA langlauf CASCADE")


def test_later_roles_get_their_rights(place: str) -> None:
    """They get their rights with the next start, and an operator's own grant stays."""
    play(place, nothing)
    execute(place, "CREATE ROLE stranger", "GRANT EXECUTE ON FUNCTION check_job_timeouts() TO stranger")
    execute(place, "CREATE ROLE service_role", "CREATE ROLE authenticated")
    assert refused(place, "service_role", JOB)
    play(place, overdue)
    assert len(as_role(place, "service_role", VIEW)) == 4
    assert not refused(place, "authenticated", READING)
    assert [tuple(row) for row in as_role(place, "stranger", JOB)] == [(0, [])]


def test_other_roles_get_no_ids(place: str) -> None:
    """Only known trusted roles do."""
    play(place, overdue)
    execute(place, "CREATE ROLE stranger", "GRANT EXECUTE ON FUNCTION check_job_timeouts() TO stranger")
    assert [tuple(row) for row in as_role(place, "stranger", JOB)] == [(4, [])]


def test_default_privileges_do_not_open_public_objects(place: str) -> None:
    """If default privileges open everything in `public`, as hosted databases do, ours stay closed."""
    execute(
        place,
        *(f"CREATE ROLE {role}" for role in ("anon", "authenticated", "service_role")),
        "ALTER DEFAULT PRIVILEGES GRANT ALL ON FUNCTIONS TO anon, authenticated, service_role",
        "ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO anon, authenticated, service_role",
        "GRANT USAGE ON SCHEMA public TO anon, authenticated, service_role",
    )
    play(place, overdue)
    for question in (JOB, READING, VIEW):
        assert refused(place, "anon", question)
    assert refused(place, "authenticated", VIEW)
    assert given(place) == {("service_role", "SELECT")}
    assert [tuple(row) for row in as_role(place, "authenticated", READING)] == [(4, [])]
    assert len(as_role(place, "service_role", VIEW)) == 4


#: Ended jobs, every tenth with an error; every twentieth runs, and some of these wait for a retry.
_MANY = """
INSERT INTO langlauf.jobs (job_id, org_id, analysis, status, priority_class, request_payload_hash, request_payload_ref,
    queued_at, updated_at, timeout_seconds, max_retries, trace_id, request_id, progress_percent, result_id, started_at,
    attempt_started_at, finished_at, failed_at, error_code, error_message, retryable, next_attempt_at, attempt)
SELECT gen_random_uuid(), 'org-' || n % 50, 'survey', status, 'default', lpad(n::text, 64, '0'), 'inline:', n, n, 60,
    3, n, n,
    CASE status WHEN 'completed' THEN 100 ELSE 0 END, CASE status WHEN 'completed' THEN n::text END, n, n,
    CASE WHEN status <> 'running' THEN n END, CASE status WHEN 'failed' THEN n END,
    CASE status WHEN 'failed' THEN 'code_' || n % 20 END, CASE status WHEN 'failed' THEN 'No.' END, status = 'failed',
    CASE WHEN status = 'running' AND n % 40 = 0 THEN n END, 1
FROM generate_series(1, 8000) AS n, LATERAL (VALUES (
    CASE WHEN n % 20 = 0 THEN 'running' WHEN n % 10 = 0 THEN 'failed' ELSE 'completed' END)) AS kind (status)
"""


_LEASES = """
INSERT INTO langlauf.leases (org_id, job_id, attempt, worker_id, expires_at, deadline_at)
SELECT org_id, job_id, 1, 'w', queued_at, queued_at FROM langlauf.jobs
WHERE status = 'running' AND next_attempt_at IS NULL
"""


@pytest.mark.parametrize(
    ("index", "question"),
    [
        ("idx_jobs_timeout_detection", "leases WHERE deadline_at <= 100"),
        ("idx_jobs_retry_eligible", "jobs WHERE next_attempt_at <= 500 AND retry_count < max_retries"),
        ("idx_jobs_error_code", "jobs WHERE error_code = 'code_10'"),
    ],
)
def test_the_planner_uses_the_indexes(database: str, index: str, question: str) -> None:
    """On larger tables the planner uses each of the three for its query."""
    play(database, nothing)
    execute(database, "SET langlauf.copying = 'on'; " + _MANY, _LEASES, "ANALYZE")
    plan = fetch(database, f"EXPLAIN SELECT job_id FROM langlauf.{question}")
    assert any(index in row[0] for row in plan), plan
