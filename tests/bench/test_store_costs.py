"""Tiny runs of what measures the stores: each figure is there, stores are as they should be. No figure is judged."""

from pathlib import Path

import msgspec
import pytest

from bench.context import Context
from bench.results import Measured, Subject
from bench.sections import store
from bench.store.cost import BATCH, PAYLOAD_BYTES, RESULT, measure_cost
from bench.store.fill import Filling, fill
from bench.store.growth import measure_backlog, measure_dead, measure_history
from langlauf.bench.rounds import new_job
from langlauf.clock import SystemClock
from langlauf.store.sqlite.connection import migrate, open_connection
from tests.support.postgres import fetch, own_server

COST = "a job in batches of 32: processor time of the store, µs"


def nothing(_: int, __: int) -> None:
    """Progress that nothing shows."""


def test_a_cost_has_its_parts(tmp_path: Path) -> None:
    """Processor time by stage, and as many rows and bytes as a job cannot do without."""
    found = measure_cost(tmp_path / "cost.db", 2 * BATCH)
    assert list(found.stages_us) == ["submit", "claim", "complete"]
    assert all(used > 0 for used in found.stages_us.values())
    # The job three times, its three events and its result; what belongs to a batch is divided by its jobs.
    assert 7 <= found.row_writes < 8
    assert found.bytes_per_job > 2 * PAYLOAD_BYTES
    assert found.figures()[COST] == pytest.approx(sum(found.stages_us.values()))


def test_input_and_result_of_the_cost_have_their_size() -> None:
    """Both are JSON; without a size an input is as small as it can be."""
    payload = new_job(SystemClock(), payload_bytes=PAYLOAD_BYTES).payload
    assert (len(payload), len(RESULT)) == (PAYLOAD_BYTES, PAYLOAD_BYTES)
    assert "Bahnhofstrasse" in msgspec.json.decode(payload)["query"]
    assert len(new_job(SystemClock()).payload) < 100
    assert set(msgspec.json.decode(RESULT)) == {"answer"}


def test_files_are_compared_in_turns_and_removed(tmp_path: Path) -> None:
    """Queues, histories, and a transaction that is held open: each with the ratio of its two medians."""
    found = [
        *measure_backlog(tmp_path, (60, 300), 6, nothing),
        *measure_history(tmp_path, (50, 200), 2, nothing),
        *measure_dead(tmp_path, 40, 5, nothing),
    ]
    assert [(one.what, one.beside) for one in found] == [
        ("claim of one job", ["60 waiting", "300 waiting"]),
        ("claim of 50 jobs, each", ["60 waiting", "300 waiting"]),
        ("submission of one job", ["60 waiting", "300 waiting"]),
        ("status of a job", ["50 finished", "200 finished"]),
        ("submission of one job", ["50 finished", "200 finished"]),
        ("claim of one job", ["nothing taken", "40 taken beside a long transaction"]),
    ]
    for one in found:
        assert one.ratio == pytest.approx(one.medians_us[1] / one.medians_us[0], abs=0.001)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("finished", [True, False])
def test_a_filled_store_has_what_it_should(tmp_path: Path, finished: bool) -> None:
    """Jobs in their lanes, each with its own id and rows; counts that fit; and the schema as it was."""
    path = tmp_path / "filled.db"
    fill(path, Filling(jobs=61, orgs=4, analyses=3, finished=finished), nothing)
    fresh = open_connection(str(tmp_path / "fresh.db"))
    connection = open_connection(str(path))
    try:
        migrate(fresh)
        made = "SELECT type, name, sql FROM sqlite_schema ORDER BY 1, 2"
        assert connection.execute(made).fetchall() == fresh.execute(made).fetchall()
        status = "completed" if finished else "queued"
        assert connection.execute(
            "SELECT count(*), count(DISTINCT job_id), count(DISTINCT org_id), count(DISTINCT analysis) FROM jobs "
            "WHERE status = ?",
            (status,),
        ).fetchall() == [(61, 61, 4, 3)]
        assert connection.execute("SELECT count(*), count(DISTINCT job_id) FROM job_events").fetchall() == [
            (61 * (4 if finished else 1), 61)
        ]
        assert connection.execute("SELECT count(*) FROM job_results").get == (2 * 61 if finished else 0)
        assert finished or connection.execute(
            "SELECT org_id, analysis, waiting FROM lanes ORDER BY 1, 2"
        ).fetchall() == (
            connection.execute("SELECT org_id, analysis, count(*) FROM jobs GROUP BY 1, 2 ORDER BY 1, 2").fetchall()
        )
        waiting = connection.execute("SELECT sum(waiting) FROM waiting_counts").get
        assert waiting == (0 if finished else 61)
        assert connection.execute("SELECT count(*) FROM lanes WHERE waiting > 0").get == (0 if finished else 12)
    finally:
        connection.close()
        fresh.close()


def found_by(postgres: str, folder: Path, *sections: str) -> dict[str, Subject]:
    """What sections measure in tiny, by store."""
    found = Measured(measured_at="2026-01-01T00:00:00Z", machine="", rounds=1)
    context = Context(folder=str(folder), rounds=1, jobs=64, sizes=(60, 120), postgres=postgres)
    for name in sections:
        getattr(store, name)(context, found)
    assert found.notes == []
    together: dict[str, Subject] = {}
    for one in found.subjects:
        together.setdefault(one.name, one).figures.update(one.figures)
    assert ("costs" in found.extra) is ("measure_scaling" in sections)
    return together


def test_both_stores_are_measured_by_the_same_names(tmp_path: Path) -> None:
    """Cost, growth, dead entries and retention; PostgreSQL has updates in place and a bare queue beside it."""
    with own_server(settings={"fsync": "off"}) as server:
        found = found_by(server.url(), tmp_path, "measure_store_cost", "measure_growth")
        assert not fetch(server.url(), "SELECT FROM pg_database WHERE starts_with(datname, 'langlauf_bench_')")
    sqlite, postgres = (set(found[name].figures) for name in ("SQLite", "PostgreSQL"))
    assert sqlite <= postgres
    assert all("bare queue" in one or "database" in one or "HOT" in one or "client" in one or "packed" in one
               or "other processes" in one or "processor time" in one for one in postgres - sqlite)  # fmt: skip
    hot = {one: found["PostgreSQL"].median(one) for one in postgres if "HOT" in one}
    assert all(share is not None and share > 0.8 for share in hot.values()), hot
    assert 7 <= (found["PostgreSQL"].median("a job in batches of 32: rows written") or 0) < 8
    assert list(tmp_path.iterdir()) == []


def test_what_one_server_carries_is_measured(tmp_path: Path) -> None:
    """Processes, orgs, limits, NOTIFY and the constants of the model."""
    with own_server(settings={"fsync": "off"}) as server:
        found = found_by(server.url(), tmp_path, "measure_scaling")["PostgreSQL"].figures
    for label in (
        "4 processes on one database: ratio to one",
        "claim of one job, 24 held back by a limit to nothing held back: ratio",
        "claim of one job, 60 orgs to 10 orgs: ratio",
        "NOTIFY in every commit, 32 connections: ratio",
    ):
        assert found[label][0] > 0, label
    # What the model says of it depends on the processors that other programs leave: none, perhaps.
    assert "model, jobs/s: predicted to measured" in found
