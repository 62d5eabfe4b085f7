"""Deliveries in SQLite: webhook endpoints, the outbox, and receivers of mail."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import apsw
from msgspec import structs

from langlauf.domain.delivery import (
    MAIL_LANE,
    MOST_ENDPOINTS,
    Delivery,
    DeliveryClaim,
    DeliveryEnd,
    DeliveryReplay,
    DeliveryStatistics,
    EndpointChange,
    Subscription,
    WebhookEndpoint,
)
from langlauf.domain.instant import Instant, after
from langlauf.domain.mail import AddressMark, MailAdmission, MailRefusal, mail_refusal
from langlauf.store.sql import delivery_from, endpoint_from, subjects_text
from langlauf.store.sqlite.batch import StoreComponent
from langlauf.store.sqlite.connection import RunRead
from langlauf.store.sqlite.transaction import Row, Transaction

_BEGINNING = -(2**62)


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


def add_endpoint(tx: Transaction, new: WebhookEndpoint) -> WebhookEndpoint | None:
    """Store it unless the org has its URL already or too many endpoints."""
    made = tx.run(
        "add_endpoint",
        org_id=new.org_id,
        endpoint_id=new.endpoint_id,
        url=new.url,
        name=new.name,
        subjects=subjects_text(new.subjects),
        now=tx.now,
        most=MOST_ENDPOINTS,
    )
    return _endpoint(tx, new.org_id, new.endpoint_id) if made else None


def change_endpoint(tx: Transaction, change: EndpointChange) -> WebhookEndpoint | None:
    """Change it. Disabling gives up its pending messages, enabling resets its lane."""
    rotates = change.rotate_seconds is not None
    changed = tx.run(
        "change_endpoint",
        org_id=change.org_id,
        endpoint_id=change.endpoint_id,
        name=change.name,
        subjects=None if change.subjects is None else subjects_text(change.subjects),
        rotates=int(rotates),
        former_until=after(tx.now, change.rotate_seconds or 0) if rotates else None,
        enabled=None if change.enabled is None else int(change.enabled),
        reason=change.reason or "switched off",
        now=tx.now,
    )
    if changed and change.enabled is False:
        _give_up(tx, change.org_id, change.endpoint_id, f"the endpoint is disabled: {change.reason or 'switched off'}")
    elif changed and change.enabled:
        tx.run("forget_lane", org_id=change.org_id, lane=change.endpoint_id)
    return _endpoint(tx, change.org_id, change.endpoint_id)


def remove_endpoint(tx: Transaction, org_id: str, endpoint_id: str) -> bool:
    """Delete it, and give up its pending messages."""
    removed = tx.run("remove_endpoint", org_id=org_id, endpoint_id=endpoint_id)
    if removed:
        _give_up(tx, org_id, endpoint_id, "the endpoint was removed")
    return bool(removed)


def _give_up(tx: Transaction, org_id: str, endpoint_id: str, reason: str) -> None:
    tx.run("give_up_waiting", org_id=org_id, endpoint_id=endpoint_id, reason=reason)
    tx.run("forget_lane", org_id=org_id, lane=endpoint_id)


def _endpoint(tx: Transaction, org_id: str, endpoint_id: str) -> WebhookEndpoint | None:
    row = tx.one("read_endpoints", org_id=org_id, endpoint_id=endpoint_id)
    return None if row is None else endpoint_from(row)


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


def finish(tx: Transaction, end: DeliveryEnd) -> bool:
    """Record the result of an attempt unless a later one was made; repeating it returns the same."""
    ids = {"org_id": end.org_id, "notification_id": end.notification_id}
    row = tx.one(
        "finish_delivery",
        **ids,
        attempt=end.attempt,
        status=end.status,
        error=end.error,
        retry_at=after(tx.now, end.retry_seconds),
        now=tx.now,
    )
    if row is None:
        return tx.one("finished_so", **ids, attempt=end.attempt, status=end.status) is not None
    job_id, lane, endpoint_id = row
    tx.run(
        "insert_delivery_attempt",
        **ids,
        attempt=end.attempt,
        job_id=job_id,
        now=tx.now,
        seconds=end.seconds,
        status=end.status,
        status_code=end.status_code,
        error=end.error,
        reply=end.reply,
    )
    if end.lane_failed:
        paused_until = None if end.pause_seconds is None else after(tx.now, end.pause_seconds)
        tx.run("lane_failed", org_id=end.org_id, lane=lane, now=tx.now, paused_until=paused_until)
    elif end.status == "sent" and tx.run("forget_lane", org_id=end.org_id, lane=lane):
        tx.run("hasten_lane", org_id=end.org_id, lane=lane, now=tx.now)
    if end.disable is not None and endpoint_id is not None:
        change_endpoint(
            tx,
            EndpointChange(org_id=end.org_id, endpoint_id=endpoint_id, enabled=False, reason=end.disable),
        )
    return True


def replay(tx: Transaction, request: DeliveryReplay) -> int:
    """Make settled messages due again."""
    if request.notification_id is not None:
        found = [request.notification_id]
    else:
        rows = tx.rows(
            "replayable",
            org_id=request.org_id,
            endpoint_id=request.endpoint_id,
            since=_BEGINNING if request.since is None else request.since,
            sent_too=request.sent_too,
            most=request.most,
        )
        found = [row[0] for row in rows]
    shared = {"org_id": request.org_id, "sent_too": request.sent_too, "now": tx.now}
    return tx.run_many("replay_one", [{**shared, "notification_id": one} for one in found])


def subscribe(tx: Transaction, org_id: str, job_id: str, wanted: Subscription) -> bool | None:
    """Add a subscription to a job that has not ended."""
    if tx.run("subscribe", org_id=org_id, job_id=job_id, **structs.asdict(wanted)):
        return True
    return None if tx.view(org_id, job_id) is None else False


class SqliteDeliveries(StoreComponent):
    """Webhook endpoints and the outbox."""

    def __init__(
        self,
        read: RunRead,
        write: Callable[[Any], Awaitable[Any]],
        queries: Mapping[str, str],
        now: Callable[[], Instant],
    ) -> None:
        super().__init__(read, write, queries)
        self._now = now

    async def add_endpoint(self, new: WebhookEndpoint) -> WebhookEndpoint | None:
        return await self._change(partial(add_endpoint, new=new), new.org_id)

    async def change_endpoint(self, change: EndpointChange) -> WebhookEndpoint | None:
        return await self._change(partial(change_endpoint, change=change), change.org_id)

    async def remove_endpoint(self, org_id: str, endpoint_id: str) -> bool:
        return await self._change(partial(remove_endpoint, org_id=org_id, endpoint_id=endpoint_id), org_id)

    async def subscribe(self, org_id: str, job_id: str, wanted: Subscription) -> bool | None:
        return await self._change(partial(subscribe, org_id=org_id, job_id=job_id, wanted=wanted), org_id)

    async def claim(self, request: DeliveryClaim) -> list[Delivery]:
        now = self._now()
        lanes = await self._read(lambda connection: self._lanes(connection, now))
        if not any(lane.room(request, now) for lane in lanes):
            return []  # mostly nothing is due, and a read costs no write
        return await self._change(partial(claim, request=request), keeps_cache=True)

    async def finish(self, end: DeliveryEnd) -> bool:
        return await self._change(partial(finish, end=end), end.org_id, keeps_cache=True)

    async def replay(self, request: DeliveryReplay) -> int:
        return await self._change(partial(replay, request=request), request.org_id)

    async def figures(self) -> DeliveryStatistics:
        now = self._now()

        def read(connection: apsw.Connection) -> DeliveryStatistics:
            def count(query: str) -> int:
                found: Any = connection.execute(self._queries[query], {"now": now}).get
                return int(found)

            pending: list[Row] = connection.execute(self._queries["pending_deliveries"]).fetchall()
            lanes = self._lanes(connection, now)
            due = [one.due_at for one in lanes if one.due_at <= now and (one.paused_until or now) <= now]
            return DeliveryStatistics(
                pending=dict(pending),
                oldest_due=min(due, default=None),
                paused_lanes=count("count_paused_lanes"),
                disabled_endpoints=count("count_disabled_endpoints"),
            )

        return await self._read(read)

    def _lanes(self, connection: apsw.Connection, now: Instant) -> list[_Lane]:
        rows: list[Row] = connection.execute(self._queries["due_lanes_out"], {"now": now}).fetchall()
        return [_Lane(*row) for row in rows]


def change_mark(tx: Transaction, org_id: str, address: str, mark: AddressMark, *, wanted: bool) -> bool:
    """Return whether something changed."""
    ids = {"org_id": org_id, "address": address, "mark": mark}
    if wanted:
        return bool(tx.run("add_mail_mark", **ids, now=tx.now))
    return bool(tx.run("remove_mail_mark", **ids))


def admit(tx: Transaction, request: MailAdmission) -> MailRefusal | None:
    """Count a mail, or return why it is refused."""
    found = tx.rows("read_mail_marks", org_id=request.org_id, address=request.address)
    refusal = mail_refusal([mark for _, _, mark, _ in found], only_listed=request.only_listed)
    if refusal is not None or not request.counted:
        return refusal
    attempt = {"org_id": request.org_id, "notification_id": request.notification_id, "attempt": request.attempt}
    longest = max(request.org_rate.window, request.address_rate.window)
    tx.run("forget_mail_admissions", org_id=request.org_id, before=after(tx.now, -longest))
    to_address = {"address": request.address, "address_since": after(tx.now, -request.address_rate.window)}
    admitted = tx.run(
        "admit_mail",
        **attempt,
        **to_address,
        now=tx.now,
        org_since=after(tx.now, -request.org_rate.window),
        org_quota=request.org_rate.quota,
        address_quota=request.address_rate.quota,
    )
    if admitted or tx.one("mail_admitted", **attempt):
        return None
    [(sent,)] = tx.rows("mails_to_address", org_id=request.org_id, **to_address)
    return "address_rate" if sent >= request.address_rate.quota else "org_rate"


class SqliteMail(StoreComponent):
    """Receivers of e-mail."""

    async def add_mark(self, org_id: str, address: str, mark: AddressMark) -> bool:
        return await self._change(lambda tx: change_mark(tx, org_id, address, mark, wanted=True), org_id)

    async def remove_mark(self, org_id: str, address: str, mark: AddressMark) -> bool:
        return await self._change(lambda tx: change_mark(tx, org_id, address, mark, wanted=False), org_id)

    async def admit(self, request: MailAdmission) -> MailRefusal | None:
        return await self._change(partial(admit, request=request), request.org_id, keeps_cache=True)
