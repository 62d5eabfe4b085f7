"""Wake-ups between hosts by LISTEN and NOTIFY: job ids, never facts; the receiver reads the database.

Notifications are sent after the commit, on a connection of their own and batched: a NOTIFY inside the writes would make
commits wait for each other. A lost notification costs time, not correctness, because workers and followers also poll.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

import msgspec

from langlauf.clock import draw, monotonic, new_id
from langlauf.domain.errors import LanglaufError, StoreError
from langlauf.hints import Hints
from langlauf.store.postgres.connection import DatabaseConnection, connect, parse_url
from langlauf.telemetry.log import LogEvent, log_event

#: The channel of a database.
CHANNEL = "langlauf"
#: PostgreSQL limits a notification to less than 8,000 bytes.
MAX_PAYLOAD_BYTES = 7_900
#: Notifications per send; jobs beyond that are found by polling.
MAX_PAYLOADS = 4
#: Bytes of an id besides its own, and of everything else in a payload.
_QUOTES, _ENVELOPE = 3, 200
#: Changes within this time are sent together; the first one at once.
INTERVAL_SECONDS = 0.025
_SEND_TIMEOUT = 1.0
#: A crash may lose notifications anyway, so they do not wait for the disk.
_SEND = "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, news) FROM unnest($2::text[]) AS news"
_FIRST_BACKOFF = 0.1
_MAX_BACKOFF = 5.0
#: A lost host sends nothing, so the listener checks its connection: by a notification, which tells others of this host.
_CHECK_INTERVAL = 5.0
_CHECK_TIMEOUT = 2.0
#: After so long without a notification of another host there is none, and nothing is sent.
_ALONE_SECONDS = 3 * _CHECK_INTERVAL + _CHECK_TIMEOUT
#: Many hosts hear of a job at the same moment; each waits a random time up to this before it claims.
_MAX_JITTER = 0.005
_CANCEL_INTERVAL = 0.5


class NotifyPayload(msgspec.Struct, omit_defaults=True, rename={"sender": "from"}):
    """One notification."""

    #: the sending host, which ignores it
    sender: str
    #: there may be something to claim
    work: bool = False
    #: a running job may have been asked to stop
    attention: bool = False
    #: jobs that may have changed
    jobs: list[str] = []


class UnknownPayload(LanglaufError):
    """A notification of another program or of a later version."""


def decode_payload(payload: str) -> NotifyPayload:
    """Parse a notification."""
    try:
        return msgspec.json.decode(payload, type=NotifyPayload)
    except msgspec.MsgspecError as error:
        raise UnknownPayload(f"a notification that is not understood: {error}") from None


def encode_payloads(sender: str, *, work: bool, attention: bool, jobs: Iterable[str]) -> list[str]:
    """Return the notifications for these changes: each within the size limit, and at most `MAX_PAYLOADS`."""
    pages = list(_pages(jobs))[:MAX_PAYLOADS] or [[]]
    payloads = [NotifyPayload(sender, jobs=page) for page in pages]
    payloads[0].work, payloads[0].attention = work, attention
    return [msgspec.json.encode(one).decode() for one in payloads]


def _pages(jobs: Iterable[str]) -> Iterator[list[str]]:
    page: list[str] = []
    room = MAX_PAYLOAD_BYTES - _ENVELOPE
    for job_id in jobs:
        size = len(msgspec.json.encode(job_id)) + _QUOTES
        if size > MAX_PAYLOAD_BYTES - _ENVELOPE:
            continue
        if size > room:
            yield page
            page, room = [], MAX_PAYLOAD_BYTES - _ENVELOPE
        page.append(job_id)
        room -= size
    if page:
        yield page


class Notifier:
    """Hints of this process that are also sent to other hosts, while there may be any."""

    def __init__(self, hints: Hints, connection: DatabaseConnection, *, others: bool) -> None:
        #: the id by which the listener of this process recognises its own notifications
        self.sender = new_id()
        self._hints = hints
        self._connection = connection
        self._others = others
        self._alone_at = monotonic() + _ALONE_SECONDS
        self._work = False
        self._attention = False
        #: in the order they changed
        self._jobs: dict[str, None] = {}
        self._next_at = 0.0
        self._sending: asyncio.Task[None] | None = None

    def work(self) -> None:
        """Signal that there may be something to claim."""
        self._hints.work()
        self._work = True
        self._start_sending()

    def claim_again(self) -> None:
        """Signal that something that waits may start; other hosts find it by polling."""
        self._hints.claim_again()

    def work_after(self, seconds: float) -> None:
        """Signal that there will be something to claim; other hosts find it by polling."""
        self._hints.work_after(seconds)

    def attention(self) -> None:
        """Signal that a running job may have been asked to stop."""
        self._hints.attention()
        self._attention = True
        self._start_sending()

    def changed(self, job_ids: Iterable[str]) -> None:
        """Signal that these jobs may have changed."""
        changed = dict.fromkeys(job_ids)
        self._hints.changed(changed)
        self._jobs |= changed
        if changed:
            self._start_sending()

    def org_changed(self, org_ids: Iterable[str]) -> None:
        """Signal that something of these orgs may have changed; other hosts find it by polling."""
        self._hints.org_changed(org_ids)

    async def finish(self) -> None:
        """Wait until everything is sent: jobs released during shutdown are claimed by other hosts."""
        while self._sending is not None:
            await asyncio.wait({self._sending})

    def expect_others(self) -> None:
        """Send for some time: another host was heard, or none can be heard now."""
        was_alone = monotonic() > self._alone_at
        self._alone_at = monotonic() + _ALONE_SECONDS
        if was_alone:  # the other host missed what came between its start and now
            self._work = True
            self._start_sending()

    def _start_sending(self) -> None:
        if not self._others or monotonic() > self._alone_at:
            self._take_changes()
        elif self._sending is None:
            self._sending = asyncio.create_task(self._send_all(), name="langlauf-notifier")

    def _take_changes(self) -> dict[str, Any]:
        changes = {"work": self._work, "attention": self._attention, "jobs": self._jobs}
        self._work, self._attention, self._jobs = False, False, {}
        return changes

    async def _send_all(self) -> None:
        try:
            while self._work or self._attention or self._jobs:
                await asyncio.sleep(max(0.0, self._next_at - monotonic()))  # later changes are sent along
                self._next_at = monotonic() + INTERVAL_SECONDS
                await self._send(encode_payloads(self.sender, **self._take_changes()))
        finally:
            self._sending = None

    async def _send(self, payloads: list[str]) -> None:
        with suppress(StoreError):  # the listener logs a database that is away
            await self._connection.use(lambda raw: raw.fetch(_SEND, CHANNEL, payloads), timeout_seconds=_SEND_TIMEOUT)


class NotificationListener:
    """Turns notifications of other hosts into hints until it is closed.

    It never fails the program: it reconnects, and then gives all hints once, as notifications sent meanwhile are lost.
    """

    def __init__(
        self, url: str, hints: Hints, *, ignored_sender: str, heard: Callable[[], None] = lambda: None
    ) -> None:
        """`heard` is called when other hosts are heard, and while none can be."""
        self._url = parse_url(url)
        self._hints = hints
        self._heard = heard
        [presence] = encode_payloads(ignored_sender, work=False, attention=False, jobs=())
        self._show_presence = f"NOTIFY {CHANNEL}, '{presence}'"
        #: how notifications of this process begin: they are not parsed, as there is one for each that it sends
        self._ignored_start = presence.removesuffix("}")
        self._away = False
        #: whether notifications come through at all: else nothing follows from not hearing others
        self._hears_itself = False
        self._listening = False
        self._backoff = _FIRST_BACKOFF
        self._wake_timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def listening(self) -> bool:
        """Whether it is connected and listening."""
        return self._listening

    def start(self) -> None:
        """Start listening in the background."""
        self._task = asyncio.create_task(self._listen_forever(), name="langlauf-listener")

    async def close(self) -> None:
        """Stop listening."""
        while self._task is not None and not self._task.done():
            self._task.cancel()
            # The driver may lose a cancel, so it is repeated.
            await asyncio.wait({self._task}, timeout=_CANCEL_INTERVAL)
        if self._wake_timer is not None:
            self._wake_timer.cancel()

    async def _listen_forever(self) -> None:
        # Not a BackgroundLoop, whose stop cancels once: the driver may lose a cancel (see `close`).
        while True:
            try:
                await self._listen()
                reason = "the connection was closed"
            except Exception as error:  # noqa: BLE001 - polling goes on, and it reconnects
                reason = str(error) or type(error).__name__
            if not self._away:
                log_event(LogEvent.LISTENER_AWAY, logging.WARNING, reason=reason)
            self._away = True
            self._heard()
            await asyncio.sleep(self._backoff * (1 + draw()) / 2)
            self._backoff = min(_MAX_BACKOFF, self._backoff * 2)

    async def _listen(self) -> None:
        """Listen until the connection breaks."""
        connection = await connect(self._url)
        closed = asyncio.Event()
        try:
            connection.add_termination_listener(lambda _: closed.set())
            # Not with wait_for, which can lose a cancel in Python 3.11.
            async with asyncio.timeout(_CHECK_TIMEOUT):
                await connection.execute("SET synchronous_commit = off")
                await connection.add_listener(CHANNEL, self._on_notification)
            self._connected()
            while not closed.is_set():
                if not self._hears_itself:
                    self._heard()
                async with asyncio.timeout(_CHECK_TIMEOUT):
                    await connection.execute(self._show_presence)
                with suppress(TimeoutError):
                    async with asyncio.timeout(_CHECK_INTERVAL):
                        await closed.wait()
        finally:
            self._listening = False
            connection.terminate()

    def _connected(self) -> None:
        """Give all hints, for what was sent before."""
        if self._away:
            log_event(LogEvent.LISTENER_BACK)
        self._away = False
        self._listening = True
        self._backoff = _FIRST_BACKOFF
        self._hears_itself = False
        self._hints.attention()
        self._hints.work()

    def _on_notification(self, _connection: Any, _pid: int, _channel: str, payload: object) -> None:
        if str(payload).startswith(self._ignored_start):
            self._hears_itself = True
            return
        try:
            received = decode_payload(str(payload))
        except UnknownPayload:
            return
        self._heard()
        self._hints.changed(received.jobs)
        if received.attention:
            self._hints.attention()
        if received.work and self._wake_timer is None:
            delay = draw() * _MAX_JITTER
            self._wake_timer = asyncio.get_running_loop().call_later(delay, self._wake_workers)

    def _wake_workers(self) -> None:
        self._wake_timer = None
        self._hints.work()
