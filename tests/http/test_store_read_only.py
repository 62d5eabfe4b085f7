"""A store that takes no writes is not ready and says why, is logged once, and comes back by itself."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest

from tests.http.test_errors import assert_problem
from tests.support.live import Live, live
from tests.support.postgres import execute
from tests.support.processes import eventually
from tests.support.store_kinds import StoreUnderTest, store_under_test


class Scene(NamedTuple):
    """A server over a store, and how its store is made to take no writes, and to take them again."""

    server: Live
    ail: Callable[[], None]
    heal: Callable[[], None]
    sentence: str


def _inner(server: Live) -> Any:
    assert server.app.runtime is not None
    return server.app.runtime.store


def _pragma(server: Live, name: str, value: int) -> None:
    """Set up the connection that writes, in its own thread."""
    store = _inner(server)
    store._writer_thread.submit(store._writer.pragma, name, value).result()


def _read_only(server: Live, _: StoreUnderTest) -> Scene:
    return Scene(
        server,
        lambda: _pragma(server, "query_only", 1),
        lambda: _pragma(server, "query_only", 0),
        "The store can only be read.",
    )


def _full(server: Live, _: StoreUnderTest) -> Scene:
    def fill() -> None:
        store = _inner(server)
        taken = "CREATE TABLE IF NOT EXISTS filler (bytes); INSERT INTO filler VALUES (zeroblob(1000000))"
        store._writer_thread.submit(store._writer.execute, taken).result()  # pages that were free, and some more
        _pragma(server, "max_page_count", 1)

    return Scene(
        server,
        fill,
        lambda: _pragma(server, "max_page_count", 2**30),
        "The disk of the store is full.",
    )


def _removed(server: Live, bed: StoreUnderTest, end: str = "") -> Scene:
    file, aside = Path(f"{bed.place}{end}"), Path(f"{bed.place}.aside")

    def move(one: Path, other: Path) -> None:
        one.rename(other)

    sentence = "The file of the store was removed or replaced."
    return Scene(server, lambda: move(file, aside), lambda: move(aside, file), sentence)


def _log_removed(server: Live, bed: StoreUnderTest) -> Scene:
    return _removed(server, bed, "-wal")


def _read_only_database(server: Live, bed: StoreUnderTest) -> Scene:
    """As after a failover: every session ends, and a new one may only read."""
    name = bed.place.partition("?")[0].rpartition("/")[2]

    def change(words: str) -> None:
        execute(
            bed.place,
            "SET default_transaction_read_only = off",
            f'ALTER DATABASE "{name}" {words}',
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()",
        )

    return Scene(
        server,
        lambda: change("SET default_transaction_read_only = on"),
        lambda: change("RESET default_transaction_read_only"),
        "The store can only be read.",
    )


AILMENTS: dict[str, tuple[str, Callable[[Live, StoreUnderTest], Scene]]] = {
    "read_only": ("sqlite", _read_only),
    "full": ("sqlite", _full),
    "removed": ("sqlite", _removed),
    "log_removed": ("sqlite", _log_removed),
    "read_only_database": ("postgres", _read_only_database),
}


@pytest.fixture(autouse=True)
def _watched_closely(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second is long for a test."""
    monkeypatch.setattr("langlauf.bootstrap.WATCH_SECONDS", 0.02)


@contextmanager
def _served(problem: str, folder: Path) -> Iterator[Scene]:
    kind, make = AILMENTS[problem]
    with (
        store_under_test(kind, folder) as bed,
        live(folder, LANGLAUF_STORE=bed.place, LANGLAUF_WORKERS="0", LANGLAUF_DELIVERIES="0") as server,
    ):
        scene = make(server, bed)
        try:
            yield scene
        finally:
            scene.heal()


def _lines(caplog: pytest.LogCaptureFixture, fact: str) -> list[dict[str, Any]]:
    return [record.__dict__["fields"] for record in caplog.records if record.getMessage() == fact]


def _posted(server: Live) -> httpx2.Response:
    """Submit a job whose input needs pages of its own."""
    body = {"analysis": "echo", "query": "Bern" * 10_000}
    return server.http.post("/analyze", json=body, headers={"Prefer": "respond-async"})


def _status(server: Live, query: str = "") -> int:
    return int(server.http.get(f"/ready{query}").status_code)


@pytest.mark.parametrize("problem", AILMENTS)
def test_a_store_that_takes_no_writes_is_not_ready_until_it_does(
    problem: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Submissions and `/ready` are 503, reads go on; it is logged once with the remedy, and once when it is over."""
    with _served(problem, tmp_path) as scene:
        server = scene.server
        job_id = server.submit("echo", query="before")["job_id"]
        caplog.clear()
        caplog.set_level(logging.INFO, logger="langlauf")
        scene.ail()
        for _ in range(2):
            assert_problem(_posted(server), 503, "unavailable")
        refused = server.http.get("/ready")
        assert_problem(refused, 503, "unavailable")
        assert refused.json()["message"].startswith(scene.sentence)
        assert (_status(server, "?for=reads"), _status(server, "?for=writes")) == (200, 400)
        assert server.job(job_id)["status"] == "queued"
        [told] = _lines(caplog, "store_unavailable")
        assert told["reason"]
        assert told["next"]
        assert not [record for record in caplog.records if record.exc_info]
        scene.heal()
        eventually(lambda: _status(server) == 200)
        assert server.submit("echo", query="after")["status"] == "queued"
        [back] = _lines(caplog, "store_back")
        assert back["refused"] >= 2
        scene.ail()  # and again
        eventually(lambda: _posted(server).status_code == 503)


def test_a_file_that_is_removed_is_noticed_without_a_write(tmp_path: Path) -> None:
    """By a request to /ready."""
    with _served("removed", tmp_path) as scene:
        assert _status(scene.server) == 200
        scene.ail()
        assert _status(scene.server) == 503


def test_a_file_in_the_place_of_the_opened_one_is_noticed(tmp_path: Path) -> None:
    """What would be accepted into the old one would never be found; the new one is not touched."""
    with _served("removed", tmp_path) as scene:
        scene.ail()
        there = tmp_path / "store.db"
        there.write_bytes(b"")
        assert_problem(_posted(scene.server), 503, "unavailable")
        assert there.read_bytes() == b""
