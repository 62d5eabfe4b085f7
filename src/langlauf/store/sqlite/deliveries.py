"""Deliveries in SQLite: webhook endpoints, the outbox, and receivers of mail."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, cast

from langlauf.domain.delivery import MAIL_LANE, Delivery, DeliveryClaim
from langlauf.domain.instant import Instant, after
from langlauf.store.admin import DeliveryStore, MailStore
from langlauf.store.sql import delivery_from
from langlauf.store.sqlite.admin import SqliteCalls
from langlauf.store.sqlite.connection import RunRead
from langlauf.store.sqlite.transaction import Transaction


class _Lane(NamedTuple):
    """A lane with pending messages."""

    org_id: str
    lane: str
    due_at: Instant
    flying: int
    failures: int
    paused_until: Instant | None

    def room(self, request: DeliveryClaim, now: Instant) -> int:
        """Return how many messages may be claimed: none while it is paused, one at a time until it works again."""
        if self.lane == MAIL_LANE and not request.with_mail:
            return 0
        if self.due_at > now or (self.paused_until is not None and self.paused_until > now):
            return 0
        most = 1 if self.failures >= request.cautious_after else request.most_of_lane
        return max(0, most - self.flying)


def claim(tx: Transaction, request: DeliveryClaim) -> list[Delivery]:
    """Claim messages of the lanes in turn, so that no lane blocks another."""
    lanes = _in_turn([_Lane(*row) for row in tx.rows("due_lanes_out", now=tx.now)], request, tx.now)
    waiting: list[list[tuple[_Lane, str]]] = []
    for lane in lanes[: request.most]:
        most = min(lane.room(request, tx.now), request.most)
        rows = tx.rows("lane_due_out", org_id=lane.org_id, lane=lane.lane, now=tx.now, most=most)
        waiting.append([(lane, row[0]) for row in rows])
    until = after(tx.now, request.claim_seconds)
    taken: list[Delivery] = []
    for turn in range(request.most):
        for messages in waiting:
            if turn < len(messages) and len(taken) < request.most:
                lane, notification_id = messages[turn]
                taken += _claim_one(tx, lane, notification_id, until)
    return taken


def _in_turn(lanes: list[_Lane], request: DeliveryClaim, now: Instant) -> list[_Lane]:
    """Return the lanes that may send, by turns of their orgs, longest due first. Claimed messages count as turns."""
    turns: Counter[str] = Counter()
    for lane in lanes:
        turns[lane.org_id] += lane.flying
    ranked: list[tuple[int, Instant, _Lane]] = []
    for lane in sorted((one for one in lanes if one.room(request, now)), key=lambda one: one.due_at):
        turns[lane.org_id] += 1
        ranked.append((turns[lane.org_id], lane.due_at, lane))
    return [lane for *_, lane in sorted(ranked, key=lambda one: one[:2])]


def _claim_one(tx: Transaction, lane: _Lane, notification_id: str, until: Instant) -> list[Delivery]:
    ids = {"org_id": lane.org_id, "notification_id": notification_id}
    if tx.run("give_up_gone", **ids):
        return []
    if not tx.run("claim_delivery", **ids, now=tx.now, until=until):
        return []
    return [delivery_from(row, lane.failures) for row in tx.rows("claimed_delivery", **ids)]


def finish_delivery(
    tx: Transaction,
    org_id: str,
    notification_id: str,
    *,
    retry_seconds: float,
    pause_seconds: float | None,
    lane_failed: bool,
    disable: str | None,
    **result: Any,
) -> bool:
    """Record the result of an attempt unless a later one was made; repeating it returns the same."""
    result |= {"org_id": org_id, "notification_id": notification_id}
    row = tx.one("finish_delivery", **result, retry_at=after(tx.now, retry_seconds), now=tx.now)
    if row is None:
        return tx.one("finished_so", **result) is not None
    job_id, lane, endpoint_id = row
    tx.run("insert_delivery_attempt", **result, job_id=job_id, now=tx.now)
    if lane_failed:
        paused_until = None if pause_seconds is None else after(tx.now, pause_seconds)
        tx.run("lane_failed", org_id=org_id, lane=lane, now=tx.now, paused_until=paused_until)
    elif result["status"] == "sent" and tx.run("forget_lane", org_id=org_id, lane=lane):
        tx.run("hasten_lane", org_id=org_id, lane=lane, now=tx.now)
    if disable is not None and endpoint_id is not None:
        change = {"name": None, "subjects": None, "enabled": False, "reason": disable, "overlap": None}
        tx.change("change_endpoint", org_id=org_id, endpoint_id=endpoint_id, **change)
    return True


def replay(tx: Transaction, org_id: str, notification_id: str | None, *, sent_too: bool, **which: Any) -> int:
    """Make settled messages due again."""
    shared = {"org_id": org_id, "sent_too": sent_too}
    found = [(notification_id,)] if notification_id is not None else tx.rows("replayable", **shared, **which)
    return tx.run_many("replay_one", [{**shared, "now": tx.now, "notification_id": one} for (one,) in found])


class SqliteDeliveries(SqliteCalls, DeliveryStore):
    """Webhook endpoints and the outbox."""

    changes = (claim, finish_delivery, replay)
    keeps_cache = frozenset({"claim", "finish_delivery"})

    def __init__(
        self,
        read: RunRead,
        write: Callable[[Any], Awaitable[Any]],
        queries: Mapping[str, str],
        now: Callable[[], Instant],
    ) -> None:
        super().__init__(read, write, queries)
        self._now: Callable[[], Instant] = now

    async def claim(self, request: DeliveryClaim) -> list[Delivery]:
        now = self._now()
        lanes = [_Lane(*row) for row in await self._rows("due_lanes_out", now=now)]
        if not any(lane.room(request, now) for lane in lanes):
            return []  # mostly nothing is due, and a read costs no write
        return cast("list[Delivery]", await self._call("claim", request=request))


class SqliteMail(SqliteCalls, MailStore):
    """Receivers of e-mail."""

    keeps_cache = frozenset({"admit_mail"})
