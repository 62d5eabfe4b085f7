"""Ends of sessions in memory: what they cost, and when other processes know of them."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from langlauf.auth import sessions as module
from langlauf.auth.caller import internal_caller
from langlauf.auth.keyring import Authenticator, Keyring
from langlauf.auth.sessions import Sessions
from langlauf.domain.instant import after
from langlauf.hints import Hints
from langlauf.store.admin import SessionEnd
from langlauf.store.sqlite.admin import SqliteAccess
from langlauf.store.sqlite.driver import SqliteStore
from tests.support.stores import START, SetClock


class Counted(SqliteAccess):
    """The real thing, with a count of looks for ends."""

    looks = 0

    async def session_ends(self, after: int) -> list[SessionEnd]:
        self.looks += 1
        return await super().session_ends(after)


class Process:
    """The sessions of one process over a store that others use, too."""

    def __init__(self, store: SqliteStore, clock: SetClock) -> None:
        self.store = Counted(store.access._read, store.access._write, store.access._queries)
        self.access = Authenticator(Keyring(self.store, clock), "a-token-of-a-test", by_id=False)
        self.sessions = Sessions(self.access, self.store, clock)


def _run(body: Callable[[Process, Process, SetClock], Awaitable[None]]) -> None:
    async def run() -> None:
        clock = SetClock()
        store = await SqliteStore.open(":memory:", clock=clock, hints=Hints())
        await body(Process(store, clock), Process(store, clock), clock)
        await store.close()

    asyncio.run(run())


@pytest.fixture
def moment(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that looks are counted by; it stands until it is set."""
    now = [1_000.0]
    monkeypatch.setattr(module, "monotonic", lambda: now[0])
    return now


def test_another_process_knows_within_a_second(moment: list[float]) -> None:
    """The one that was told knows at once; requests and streams of both are refused."""

    async def body(here: Process, there: Process, _: SetClock) -> None:
        grant = await here.access.by_secret(b"a-token-of-a-test")
        assert grant is not None
        begun = await here.sessions.begin(grant, "org-a")
        shown = await there.sessions.grant(begun.text)
        caller = msgspec.structs.replace(internal_caller("org-a"), grant=shown)
        assert await there.sessions.allows(caller)
        await here.sessions.end(begun.text)
        assert await here.sessions.grant(begun.text) is None
        moment[0] += module.FRESH_SECONDS
        assert await there.sessions.grant(begun.text) is None
        assert not await there.sessions.allows(caller)
        again = await here.sessions.begin(grant, "org-a")
        assert await there.sessions.grant(again.text) is not None

    _run(body)


def test_many_requests_cost_one_look_a_second_and_keys_none(moment: list[float]) -> None:
    """Only while sessions are in use is the store asked, and an end that is over is forgotten."""

    async def body(here: Process, there: Process, clock: SetClock) -> None:
        grant = await here.access.by_secret(b"a-token-of-a-test")
        assert grant is not None
        assert here.store.looks == 0
        begun = await here.sessions.begin(grant, "org-a")
        for _ in range(3):
            for _ in range(100):
                assert await here.sessions.grant(begun.text) is not None
            moment[0] += module.FRESH_SECONDS
        assert here.store.looks == 3
        await here.sessions.end(begun.text)
        await here.sessions.end("made up")
        assert len(here.sessions._ended._ends) == 1
        clock.time = after(START, 9 * 3_600)
        assert not await here.sessions._ended.has("another")
        assert here.sessions._ended._ends == {}

    _run(body)
