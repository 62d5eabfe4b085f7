"""Doctor on stores of both kinds: one in good health has nothing to report, and each planted fault is found by name."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from langlauf.auth.keyring import KeyService
from langlauf.doctor import CHECKS
from langlauf.doctor.check import Needs
from langlauf.domain.health import MIN_ENDED
from langlauf.domain.instant import SECOND
from langlauf.domain.schedule import PauseRequest, Schedule
from langlauf.store.protocol import Store
from tests.doctor.checked_store import CheckedStore, held, maker, report, with_blob

_HOUR = 3_600 * SECOND
_DAY = 24 * _HOUR


def test_a_store_in_good_health_has_no_finding(sqlite: CheckedStore) -> None:
    """Every check is made, and all is well, also the second time."""
    assert (sqlite.examine().exit_code, sqlite.examine().wrong) == (0, {})
    found = sqlite.examine("--strict", LANGLAUF_BLOBS=str(sqlite.folder / "blobs"))
    assert (found.exit_code, found.wrong) == (0, {})
    assert len(found.levels) == sum(check.needs is not Needs.POSTGRES for check in CHECKS)
    assert all(one["next"] is None and one["seen"] for one in found.findings.values())


def _ended_lease(store: CheckedStore) -> None:
    store.use(held)
    store.run(f"UPDATE leases SET expires_at = {store.now() - _HOUR}")


def _silent_worker(store: CheckedStore) -> None:
    store.use(held)
    store.run(f"UPDATE workers SET seen_at = {store.now() - _HOUR}")


def _nobody_there(store: CheckedStore) -> None:
    store.use(lambda store: maker(store).queued())
    store.run("DELETE FROM workers")


def _unknown_analysis(store: CheckedStore) -> None:
    store.use(lambda store: maker(store).queued())


def _unknown_retry(store: CheckedStore) -> None:
    store.use(lambda store: maker(store).retrying())


def _other_version(store: CheckedStore) -> None:
    store.use(lambda store: store.workers.save_report(report(store, "worker-2", version="0.0.1")))


def _other_lease(store: CheckedStore) -> None:
    store.use(lambda store: store.workers.save_report(report(store, "worker-2", every_seconds=300.0)))


def _stale(duty: str) -> Callable[[CheckedStore], None]:
    def plant(store: CheckedStore) -> None:
        store.use(held)
        store.run(f"UPDATE duties SET succeeded_at = {store.now() - _DAY} WHERE name = '{duty}'")

    return plant


def _forgotten_pause(store: CheckedStore) -> None:
    async def paused(store: Store) -> None:
        await store.pause(PauseRequest(analysis="survey", because="the source is down"))

    store.use(paused)
    store.run(f"UPDATE pauses SET paused_at = {store.now() - 48 * _HOUR}")


def _waits_for_a_pause(store: CheckedStore) -> None:
    async def paused(store: Store) -> None:
        job = await maker(store).queued()
        await store.workers.save_report(report(store, "worker-2", analyses=(job.analysis,)))
        until = store.clock.now() + 7 * _DAY
        await store.pause(PauseRequest(analysis=job.analysis, because="the source is down", paused_until=until))

    store.use(paused)
    store.run(f"UPDATE jobs SET queued_at = {store.now() - 48 * _HOUR} WHERE finished_at IS NULL")


def _scheduled(analysis: str, planned: int) -> Callable[[CheckedStore], None]:
    """Plant a schedule of an analysis whose next run is so many microseconds from now."""

    def plant(store: CheckedStore) -> None:
        async def add(store: Store) -> None:
            now = store.clock.now()
            one = Schedule(
                org_id="org-a", name="morning", analysis=analysis, every_seconds=60, next_run_at=now + planned
            )
            await store.workers.save_report(report(store, "worker-2", analyses=("survey",)))
            assert await store.schedules.add(one)

        store.use(add)

    return plant


def _waits_long(store: CheckedStore) -> None:
    async def queued(store: Store) -> None:
        job = await maker(store).queued()
        await store.workers.save_report(report(store, "worker-2", analyses=(job.analysis,)))

    store.use(queued)
    store.run(f"UPDATE jobs SET queued_at = {store.now() - _HOUR} WHERE finished_at IS NULL")


def _runs_long(store: CheckedStore) -> None:
    store.use(held)
    long_ago = store.now() - 3 * _DAY
    store.run(f"UPDATE jobs SET queued_at = {long_ago}, started_at = {long_ago} WHERE finished_at IS NULL")


def _does_not_stop(store: CheckedStore) -> None:
    store.use(held)
    store.run(
        f"UPDATE jobs SET cancel_requested_at = {store.now() - _HOUR}, canceled_by = 'user' WHERE finished_at IS NULL"
    )


def _many_fail(store: CheckedStore) -> None:
    async def fail(store: Store) -> None:
        for _ in range(MIN_ENDED):
            await maker(store).failed()

    store.use(fail)


def _retry_overdue(store: CheckedStore) -> None:
    store.use(lambda store: maker(store).retrying())
    store.run(f"UPDATE jobs SET next_attempt_at = {store.now() - _HOUR} WHERE next_attempt_at IS NOT NULL")


def _kept_too_long(store: CheckedStore) -> None:
    long_ago = store.now() - 5 * _DAY
    store.force(
        f"UPDATE job_rows SET queued_at = {long_ago}, started_at = {long_ago}, attempt_started_at = {long_ago}, "
        f"finished_at = {long_ago}, updated_at = {long_ago} WHERE finished_at IS NOT NULL"
    )


def _overdue_message(store: CheckedStore) -> None:
    store.run(
        "INSERT INTO notifications (org_id, notification_id, job_id, channel, template_key, delivery_status, "
        "attempt_count, dedupe_key, scheduled_at, created_at, payload_json, target, lane) "
        "SELECT org_id, 'n-1', job_id, 'webhook', 'async.job.completed', 'pending', 0, 'd-1', "
        f"{store.now() - _HOUR}, {store.now() - _HOUR}, "
        "'{}', 'https://example.org', 'l-1' FROM jobs"
    )


def _endpoint_off(store: CheckedStore) -> None:
    store.run(
        "INSERT INTO webhook_endpoints (org_id, endpoint_id, url, name, subjects, created_at, version, disabled_at, "
        "disabled_reason) VALUES ('org-a', 'e-1', 'https://example.org', 'one', ',completed,', 1, 1, 1, 'failing')"
    )


def _dropped_index(store: CheckedStore) -> None:
    store.run("DROP INDEX idx_job_results_final")


def _dropped_trigger(store: CheckedStore) -> None:
    trigger = "jobs_start_queued ON job_rows" if store.kind == "postgres" else "job_events_are_appended"
    store.run(f"DROP TRIGGER {trigger}")


class Fault(NamedTuple):
    """A fault, the check that must find it, how grave it is, and what else follows from it."""

    name: str
    level: str
    plant: Callable[[CheckedStore], None]
    also: frozenset[str] = frozenset()


FAULTS = (
    Fault("ended_leases", "error", _ended_lease),
    Fault("workers", "error", _silent_worker),
    Fault("workers", "error", _nobody_there),
    Fault("unknown_analyses", "error", _unknown_analysis),
    Fault("unknown_analyses", "error", _unknown_retry),
    Fault("worker_versions", "warning", _other_version),
    Fault("same_leases", "warning", _other_lease),
    Fault("duty_sweep", "error", _stale("sweep")),
    Fault("duty_retention", "error", _stale("retention")),
    Fault("oldest_waiting", "warning", _waits_long),
    Fault("paused", "warning", _forgotten_pause),
    Fault("paused", "warning", _waits_for_a_pause),
    Fault("schedules", "error", _scheduled("survey", -_HOUR)),
    Fault("schedules", "warning", _scheduled("gone", _HOUR)),
    Fault("schedules", "warning", _scheduled("gone", -_HOUR)),
    Fault("oldest_running", "warning", _runs_long),
    Fault("canceling", "warning", _does_not_stop),
    Fault("failures", "warning", _many_fail),
    Fault("retries", "warning", _retry_overdue, frozenset({"unknown_analyses"})),
    Fault("retention_lag", "warning", _kept_too_long),
    Fault("deliveries", "error", _overdue_message, frozenset({"duty_deliveries"})),
    Fault("endpoints", "warning", _endpoint_off),
)


@pytest.mark.parametrize("fault", FAULTS, ids=[f"{fault.name}-{fault.plant.__name__}" for fault in FAULTS])
def test_a_planted_fault_is_found_by_its_check(either: CheckedStore, fault: Fault) -> None:
    """It is found by name, with a next step, and by no other check than those that it must reach as well."""
    fault.plant(either)
    found = either.examine()
    assert set(found.wrong) == {fault.name} | fault.also, found.findings
    assert found.levels[fault.name] == fault.level
    assert found.findings[fault.name]["next"]
    assert found.exit_code == (1 if either.given or "error" in found.wrong.values() else 0)


@pytest.mark.parametrize("plant", [_dropped_index, _dropped_trigger])
def test_what_is_missing_of_the_schema_is_found(
    either_schema: CheckedStore, plant: Callable[[CheckedStore], None]
) -> None:
    """A unique index or a trigger that was dropped is an error."""
    plant(either_schema)
    found = either_schema.examine()
    assert found.wrong == {"schema_objects": "error"}
    assert "missing" in found.findings["schema_objects"]["seen"]


def test_warnings_count_where_that_is_asked_for(sqlite: CheckedStore) -> None:
    """They are no failure by themselves, and with --strict they are."""
    _endpoint_off(sqlite)
    assert sqlite.examine().exit_code == 0
    assert sqlite.examine("--strict").exit_code == 1


def _blobs(store: CheckedStore) -> list[Path]:
    return [path for path in (store.folder / "blobs").rglob("*") if path.is_file()]


def test_a_missing_blob_is_found(either: CheckedStore) -> None:
    """A row names what is not there any more."""
    either.use(with_blob, inline=1)
    place = {"LANGLAUF_BLOBS": str(either.folder / "blobs")}
    assert either.examine(**place).wrong == {}
    [blob] = _blobs(either)
    kept = blob.read_bytes()
    blob.write_bytes(b"something else")
    assert either.examine(**place).wrong == {"blobs_missing": "error"}
    blob.unlink()
    assert either.examine(**place).wrong == {"blobs_missing": "error"}
    assert either.examine("--deep", **place).wrong == {"blobs_missing": "error"}
    blob.write_bytes(kept)
    assert either.examine(**place).wrong == {}
    assert either.examine().wrong == {"blobs_missing": "error"}  # no setting says where they are


def test_blobs_of_another_store_are_found(either: CheckedStore) -> None:
    """The store is a copy: no server starts on them."""

    async def claim(store: Store) -> None:
        await with_blob(store)
        await store.blobs.check()

    either.use(claim, inline=1)
    place = {"LANGLAUF_BLOBS": str(either.folder / "blobs")}
    assert either.examine(**place).wrong == {}
    [mark] = (either.folder / "blobs").rglob("owner.mark")
    mark.write_bytes(mark.read_bytes().replace(b'"instance":"', b'"instance":"other'))
    found = either.examine(**place)
    assert found.wrong == {"blobs_owner": "error"}
    assert "langlauf blobs take-over" in found.findings["blobs_owner"]["next"]


def test_an_orphaned_blob_is_found(either: CheckedStore) -> None:
    """No row names it, and none ever will."""
    either.use(with_blob, inline=1)
    [blob] = _blobs(either)
    blob.with_name("0" * 64).write_bytes(b"nobody's")
    place = {"LANGLAUF_BLOBS": str(either.folder / "blobs")}
    assert either.examine(**place).wrong == {}  # so young that it is left alone
    assert either.examine(LANGLAUF_LIMITS="blob_garbage_age=0", **place).wrong == {"blobs_orphaned": "warning"}


@pytest.mark.parametrize(
    ("name", "level", "settings"),
    [
        ("open_access", "error", {"LANGLAUF_HOST": "192.0.2.1", "LANGLAUF_PUBLIC_URL": "https://jobs.example"}),
        ("public_url", "warning", {"LANGLAUF_HOST": "192.0.2.1", "API_AUTH_TOKEN": "a-long-token"}),
        ("shutdown_grace", "warning", {"LANGLAUF_SHUTDOWN_GRACE": "2m"}),
        ("retention_order", "warning", {"LANGLAUF_JOBS_RETENTION": "1d"}),
        ("lease_length", "error", {"LANGLAUF_POLL_SECONDS": "1000"}),
    ],
)
def test_settings_that_do_not_go_together_are_found(
    sqlite: CheckedStore, name: str, level: str, settings: dict[str, str]
) -> None:
    """Each by its name."""
    assert sqlite.examine(**settings).wrong == {name: level}


def test_keys_without_an_operator_are_told(either: CheckedStore) -> None:
    """No key reads `/metrics`, so an operator's token is needed."""
    either.use(lambda store: KeyService(store.access, store.clock).create("org-a"))
    found = either.examine()
    assert found.wrong == {"operator_token": "warning"}
    seen = found.findings["operator_token"]["seen"]
    assert "/metrics" in seen
    assert "start it again" in seen
    assert either.examine(API_AUTH_TOKEN="a-long-token").wrong == {}


def test_a_setting_that_cannot_be_used_is_told(sqlite: CheckedStore) -> None:
    """Then nothing can be checked."""
    found = sqlite.examine(LANGLAUF_LEASE_SECONDS="soon")
    assert (found.exit_code, set(found.wrong)) == (2, {"settings"})
    assert "LANGLAUF_LEASE_SECONDS" in found.findings["settings"]["seen"]
