"""Each guard of the outbox's statements matters: a store without it breaks a promise that the sound one keeps."""

import re
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from langlauf.domain.delivery import Delivery, DeliveryReplay
from langlauf.domain.errors import StoreError
from langlauf.store.protocol import Store
from langlauf.store.sqlite.driver import SqliteStore
from tests.store_contract.test_deliveries import CLAIM_SECONDS, completed, ended, endpoint, outbox, request
from tests.support.postgres import execute, fetch
from tests.support.store_kinds import StoreUnderTest, store_under_test
from tests.support.stores import JobFactory, SetClock

Probe = Callable[[Store, SetClock], Awaitable[None]]


class Edit(NamedTuple):
    """A statement of SQLite, or a function of PostgreSQL, in which one text stands for another."""

    where: str
    old: str
    new: str = "TRUE"

    def applied_to(self, text: str) -> str:
        """The text is there once; any white space in it fits any other."""
        pattern = r"\s+".join(map(re.escape, self.old.split()))
        assert len(re.findall(pattern, text)) == 1, f"{self.where} must have exactly one {self.old!r}"
        return re.sub(pattern, lambda _: self.new, text)


class Guard(NamedTuple):
    """What is left out of each store, and what shows it. Guards that stand before each other go together."""

    name: str
    probe: Probe
    sqlite: tuple[Edit, ...]
    postgres: tuple[Edit, ...]


async def _taken(store: Store, **wanted: int) -> Delivery:
    [one] = await store.deliveries.claim(request(**wanted))
    return one


async def _only_the_last_attempt_ends(store: Store, clock: SetClock) -> None:
    await endpoint(store, clock)
    await completed(store, clock)
    first = await _taken(store)
    clock.pass_(CLAIM_SECONDS)
    await _taken(store)
    assert not await store.deliveries.finish(ended(first, "sent"))


async def _an_end_stands(store: Store, clock: SetClock) -> None:
    await endpoint(store, clock)
    await completed(store, clock)
    one = await _taken(store)
    assert await store.deliveries.finish(ended(one, "sent"))
    assert not await store.deliveries.finish(ended(one, "failed", error="late"))
    assert (await outbox(store))[-1].delivery_status == "sent"


async def _an_end_is_noted_once(store: Store, clock: SetClock) -> None:
    await endpoint(store, clock)
    await completed(store, clock)
    again = ended(await _taken(store), "pending", retry_seconds=60, error="no", lane_failed=True)
    assert await store.deliveries.finish(again)
    assert await store.deliveries.finish(again)
    assert [one.failures for one in await store.tenant("org-a").endpoints()] == [1]


async def _what_is_sent_is_nobody_elses(store: Store, clock: SetClock) -> None:
    await endpoint(store, clock)
    await completed(store, clock)
    await _taken(store, most_of_lane=5)
    assert await store.deliveries.claim(request(most_of_lane=5)) == []


async def _what_waits_for_its_time_waits(store: Store, clock: SetClock) -> None:
    await endpoint(store, clock)
    await completed(store, clock)
    assert await store.deliveries.finish(ended(await _taken(store), "pending", retry_seconds=60))
    await completed(store, clock)
    assert len(await store.deliveries.claim(request(most_of_lane=5))) == 1


async def _haste_leaves_what_is_being_sent(store: Store, clock: SetClock) -> None:
    await endpoint(store, clock)
    for _ in range(2):
        await completed(store, clock)
    assert await store.deliveries.finish(
        ended(await _taken(store, most=1), "pending", retry_seconds=0, lane_failed=True)
    )
    one, other = await store.deliveries.claim(request(most_of_lane=5))
    assert await store.deliveries.finish(ended(one, "sent"))
    assert other.notification_id not in {again.notification_id for again in await store.deliveries.claim(request())}


async def _what_waits_is_not_replayed(store: Store, clock: SetClock) -> None:
    await endpoint(store, clock)
    await completed(store, clock)
    one = await _taken(store)
    assert await store.deliveries.replay(DeliveryReplay(org_id="org-a", notification_id=one.notification_id)) == 0


async def _what_arrived_is_not_given_up(store: Store, clock: SetClock) -> None:
    mine = await endpoint(store, clock)
    await completed(store, clock)
    assert await store.deliveries.finish(ended(await _taken(store), "sent"))
    assert await store.deliveries.remove_endpoint("org-a", mine.endpoint_id)
    assert (await outbox(store))[-1].delivery_status == "sent"


_SETTLED = "(delivery_status IN ('failed', 'suppressed') OR (:sent_too AND delivery_status = 'sent'))"
_SETTLED_ONE = "(one.delivery_status IN ('failed', 'suppressed') OR (sent_too AND one.delivery_status = 'sent'))"
_FREE = "(claimed_until IS NULL OR claimed_until <= :now)"
_FREE_ONE = "(one.claimed_until IS NULL OR one.claimed_until <= now)"
_FREE_MESSAGE = "(message.claimed_until IS NULL OR message.claimed_until <= now)"
_ANY_FREE = (Edit("lane_due_out", _FREE), Edit("claim_delivery", _FREE))
_ANY_FREE_PG = (Edit("claim_deliveries", _FREE_ONE), Edit("claim_deliveries", _FREE_MESSAGE))
_DUE = "scheduled_at <= :now"
_DUE_ONE = "one.scheduled_at <= now"
_FIRST_DUE = "waiting.due_at <= now"

GUARDS = (
    Guard(
        "the attempt that ends is the last",
        _only_the_last_attempt_ends,
        (Edit("finish_delivery", "attempt_count = :attempt"),),
        (Edit("finish_delivery", "attempt_count = attempt_no"),),
    ),
    Guard(
        "a message that is settled stays so",
        _an_end_stands,
        (
            Edit("finish_delivery", "AND delivery_status = 'pending'", ""),
            Edit("finish_delivery", "claimed_until IS NOT NULL"),
            Edit("insert_delivery_attempt", "INSERT INTO", "INSERT OR IGNORE INTO"),
        ),
        (
            Edit("finish_delivery", "AND delivery_status = 'pending'", ""),
            Edit("finish_delivery", "claimed_until IS NOT NULL"),
            Edit("finish_delivery", "failure, answer);", "failure, answer) ON CONFLICT DO NOTHING;"),
        ),
    ),
    Guard(
        "an attempt ends once",
        _an_end_is_noted_once,
        (Edit("finish_delivery", "claimed_until IS NOT NULL"),),
        (Edit("finish_delivery", "claimed_until IS NOT NULL"),),
    ),
    Guard(
        "what is being sent is not handed out",
        _what_is_sent_is_nobody_elses,
        # That it is due when its claim is over, and that it is claimed: each of them is enough.
        (*_ANY_FREE, Edit("lane_due_out", _DUE), Edit("due_lanes_out", "min(first.scheduled_at)", "0")),
        (*_ANY_FREE_PG, Edit("claim_deliveries", _DUE_ONE), Edit("lanes_with_room", _FIRST_DUE)),
    ),
    Guard(
        "what is to be tried later is not handed out",
        _what_waits_for_its_time_waits,
        (Edit("lane_due_out", _DUE),),
        (Edit("claim_deliveries", _DUE_ONE),),
    ),
    Guard(
        "what is being sent is not hastened",
        _haste_leaves_what_is_being_sent,
        (*_ANY_FREE, Edit("hasten_lane", "late.claimed_until IS NULL")),
        (*_ANY_FREE_PG, Edit("make_lane_due", "claimed_until IS NULL")),
    ),
    Guard(
        "what waits is not replayed",
        _what_waits_is_not_replayed,
        (Edit("replay_one", _SETTLED),),
        (Edit("replay", _SETTLED_ONE), Edit("replay", "again.delivery_status <> 'pending'")),
    ),
    Guard(
        "what arrived is not given up",
        _what_arrived_is_not_given_up,
        (
            Edit("remove_endpoint.1", "INDEXED BY idx_notifications_due", ""),
            Edit("remove_endpoint.1", "delivery_status = 'pending' AND channel"),
            Edit("remove_endpoint.1", "outbox.delivery_status = 'pending'"),
        ),
        (
            Edit("remove_endpoint", "delivery_status = 'pending' AND channel <> 'in_app'"),
            Edit("remove_endpoint", "outbox.delivery_status = 'pending'"),
        ),
    ),
)


@pytest.fixture(params=["memory", "postgres"])
def bed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreUnderTest]:
    """An empty store that one statement of may be weakened."""
    with store_under_test(request.param, tmp_path) as place:
        yield place


def _weaken_functions(url: str, edits: tuple[Edit, ...]) -> None:
    made: dict[str, str] = {}
    for edit in edits:
        if edit.where not in made:
            query = "SELECT pg_get_functiondef(('langlauf.' || $1)::regproc)"
            made[edit.where] = str(fetch(url, query, edit.where)[0][0])
        made[edit.where] = edit.applied_to(made[edit.where])
    execute(url, *made.values())


def _weaken_statements(store: SqliteStore, edits: tuple[Edit, ...]) -> None:
    queries: dict[str, Any] = dict(store._queries)
    for edit in edits:
        queries[edit.where] = edit.applied_to(queries[edit.where])
    store._queries.update(queries)


@pytest.mark.parametrize("guard", GUARDS, ids=[guard.name for guard in GUARDS])
def test_without_its_guard_a_store_breaks_its_promise(bed: StoreUnderTest, guard: Guard) -> None:
    """The sound store keeps the promise, the weaker one does not, and nothing else is different between the two."""
    clock = SetClock()

    async def sound(store: Store, _: JobFactory, clock: SetClock) -> None:
        await guard.probe(store, clock)
        # What the probe left is settled, so that the next one begins with nothing that waits.
        clock.pass_(86_400)
        while taken := await store.deliveries.claim(request(most_of_lane=10)):
            for one in taken:
                assert await store.deliveries.finish(ended(one, "failed", error="enough"))
        for mine in await store.tenant("org-a").endpoints():
            assert await store.deliveries.remove_endpoint("org-a", mine.endpoint_id)

    async def weak(store: Store, _: JobFactory, clock: SetClock) -> None:
        if isinstance(store, SqliteStore):
            _weaken_statements(store, guard.sqlite)
        await guard.probe(store, clock)

    if bed.kind == "postgres":
        bed.play(sound, clock)
        _weaken_functions(bed.place, guard.postgres)
        clock = SetClock(clock.now())
    else:
        bed.play(sound, SetClock())  # a store in memory begins anew
    with pytest.raises((AssertionError, StoreError)):
        bed.play(weak, clock)
