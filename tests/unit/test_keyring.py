"""Keys in memory: what a request costs the store, and what a flood of made-up keys does."""

import asyncio

import msgspec
import pytest

from langlauf.auth import keyring as module
from langlauf.auth.caller import internal_caller
from langlauf.auth.credentials import JobTokens
from langlauf.auth.keyring import Authenticator, Keyring, KeyService
from langlauf.auth.sessions import Sessions
from langlauf.clock import new_word
from langlauf.domain.access import (
    DEFAULT_SCOPES,
    ID_LENGTH,
    KEY_ALPHABET,
    KEY_PREFIX,
    SECRET_LENGTH,
    KeyChanges,
    key_text,
)
from langlauf.domain.instant import after
from langlauf.hints import Hints
from langlauf.store.sqlite.admin import SqliteAccess
from langlauf.store.sqlite.driver import SqliteStore
from tests.support.stores import START, SetClock


class Counted(SqliteAccess):
    """The real thing, with a count of looks for changes."""

    looks = 0

    async def key_changes(self, after: int) -> KeyChanges:
        self.looks += 1
        return await super().key_changes(after)


class Scene:
    """A store in memory with one key, and who may call."""

    def __init__(self, store: SqliteStore, clock: SetClock) -> None:
        self.store = Counted(store.access._read, store.access._write, store.access._queries)
        self.keys = KeyService(store.access, clock)
        self.ring = Keyring(self.store, clock)
        self.access = Authenticator(self.ring, None, by_id=False)


def _made_up() -> bytes:
    return key_text(KEY_PREFIX + new_word(KEY_ALPHABET, ID_LENGTH), new_word(KEY_ALPHABET, SECRET_LENGTH)).encode()


@pytest.fixture
def moment(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that looks are counted by; it stands until it is set."""
    now = [1_000.0]
    monkeypatch.setattr(module, "monotonic", lambda: now[0])
    monkeypatch.setattr(module, "SHORTEST_PAUSE", 0.0)
    return now


async def _scene(clock: SetClock) -> tuple[SqliteStore, Scene]:
    store = await SqliteStore.open(":memory:", clock=clock, hints=Hints())
    return store, Scene(store, clock)


def test_a_known_key_costs_one_look_a_second(moment: list[float]) -> None:
    """However many requests come, and none while nobody comes."""

    async def run() -> None:
        store, scene = await _scene(SetClock())
        made = await scene.keys.create("org-a")
        for _ in range(5):
            for _ in range(200):
                await scene.access.refresh()
                grant = await scene.access.by_secret(made.text.encode())
                assert grant is not None
                assert (grant.org_id, grant.scopes, grant.key_id) == ("org-a", DEFAULT_SCOPES, made.key.key_id)
            moment[0] += module.FRESH_SECONDS
        assert scene.store.looks == 5
        await store.close()

    asyncio.run(run())


def test_a_flood_of_made_up_keys_leaves_nothing_behind(moment: list[float]) -> None:
    """Those who come together share a look, and what is remembered are the keys that exist."""

    async def run() -> None:
        store, scene = await _scene(SetClock())
        await scene.keys.create("org-a")
        for _ in range(10):
            moment[0] += 0.01
            refused = await asyncio.gather(*(scene.access.by_secret(_made_up()) for _ in range(500)))
            assert refused == [None] * 500
        assert scene.store.looks <= 20
        assert len(scene.ring._keys) == 1
        assert scene.ring._uses == {}
        await store.close()

    asyncio.run(run())


def test_what_is_not_written_like_a_key_is_not_looked_for(moment: list[float]) -> None:
    """Not a single read, whatever it is."""

    async def run() -> None:
        store, scene = await _scene(SetClock())
        made = await scene.keys.create("org-a")
        await scene.access.refresh()
        for wrong in (b"", b"x" * 10_000, made.text[:-1].encode(), made.text.swapcase().encode(), b"\xff\x00"):
            assert await scene.access.by_secret(wrong) is None
        assert scene.store.looks == 1
        await store.close()

    asyncio.run(run())


def test_revoked_keys_are_forgotten_and_expired_ones_open_nothing(moment: list[float]) -> None:
    """A revoked one leaves no trace; one that expires does so by the store's clock."""

    async def run() -> None:
        clock = SetClock()
        store, scene = await _scene(clock)
        made = await scene.keys.create("org-a", expires_at=START + 10_000_000)
        await scene.access.refresh()
        assert await scene.access.by_secret(made.text.encode()) is not None
        clock.pass_(10)
        assert await scene.access.by_secret(made.text.encode()) is None
        other = await scene.keys.create("org-a")
        moment[0] += 0.01
        assert await scene.access.by_secret(other.text.encode()) is not None
        await scene.keys.revoke(other.key.key_id, org_id=None)
        moment[0] += module.FRESH_SECONDS
        await scene.access.refresh()
        assert await scene.access.by_secret(other.text.encode()) is None
        assert other.key.key_id not in scene.ring._keys
        assert not scene.access.open
        await store.close()

    asyncio.run(run())


def test_uses_are_written_together_and_not_twice(moment: list[float]) -> None:
    """Off the request: whoever uses a key a hundred times has one row written."""

    async def run() -> None:
        clock = SetClock()
        store, scene = await _scene(clock)
        made = [await scene.keys.create("org-a") for _ in range(3)]
        for one in made[:2]:
            for _ in range(100):
                assert await scene.access.by_secret(one.text.encode()) is not None
        assert [key.last_used_at for key in await scene.keys.list(None)] == [None] * 3
        await scene.ring.write_uses()
        times = {key.key_id: key.last_used_at for key in await scene.keys.list(None)}
        assert [times[one.key.key_id] for one in made] == [START, START, None]
        clock.pass_(60)
        await scene.ring.write_uses()
        assert {key.key_id: key.last_used_at for key in await scene.keys.list(None)} == times
        await store.close()

    asyncio.run(run())


def test_what_was_made_with_a_key_counts_as_its_use(moment: list[float]) -> None:
    """A token for a job and a session: the key behind them is in use for as long as they are."""

    async def run() -> None:
        clock = SetClock()
        store, scene = await _scene(clock)
        made = await scene.keys.create("org-a")
        grant = await scene.access.by_secret(made.text.encode())
        assert grant is not None
        caller = msgspec.structs.replace(internal_caller("org-a"), grant=grant)
        tokens, sessions = JobTokens(scene.access, scene.store), Sessions(scene.access, scene.store, clock)
        token, session = await tokens.make(caller, "job", 600), await sessions.begin(grant, "org-a")
        for seconds, show in ((60, tokens.grant(token.text)), (120, sessions.grant(session.text))):
            clock.time = after(START, seconds)
            assert await show is not None
            await scene.ring.write_uses()
            [key] = await scene.keys.list(None)
            assert key.last_used_at == after(START, seconds)
        await store.close()

    asyncio.run(run())
