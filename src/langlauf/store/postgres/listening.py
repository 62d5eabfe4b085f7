"""Hears what other hosts committed, by LISTEN on a connection of its own, and wakes whoever waits in this process.

A listener that is away costs time, not truth: workers and followers look by themselves all the while. So it never fails
the program; it comes back by itself, and then has everybody look once, for what was told meanwhile is lost.
"""

import asyncio
import logging
from contextlib import suppress
from typing import Any

from langlauf.clock import draw
from langlauf.hints import Hints
from langlauf.store.postgres.address import read_address
from langlauf.store.postgres.link import connect
from langlauf.store.postgres.news import CHANNEL, UnknownPayload, read
from langlauf.telemetry.log import LogEvent, log_event

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0
#: A host that vanished says nothing: so the database is asked for a sign of life.
_SIGN_EVERY = 5.0
_SIGN_SECONDS = 2.0
#: Many hosts hear of one job at the same moment; they ask for it one after the other, after up to this long.
_SPREAD_SECONDS = 0.005
_AGAIN_SECONDS = 0.5


class Listener:
    """Turns notifications into hints until it is closed."""

    def __init__(self, url: str, hints: Hints, *, deaf_to: str) -> None:
        self._address = read_address(url)
        self._hints = hints
        self._deaf_to = deaf_to
        self._away = False
        self._listening = False
        self._pause = _FIRST_PAUSE
        self._wake: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def listening(self) -> bool:
        """Whether notifications are heard."""
        return self._listening

    def start(self) -> None:
        """Begins to listen, in the background."""
        self._task = asyncio.create_task(self._listen_for_ever(), name="langlauf-listener")

    async def close(self) -> None:
        """Stops listening."""
        while self._task is not None and not self._task.done():
            self._task.cancel()
            # What it waits for may be a library's, which may lose a cancel: then it is told again.
            await asyncio.wait({self._task}, timeout=_AGAIN_SECONDS)
        if self._wake is not None:
            self._wake.cancel()

    async def _listen_for_ever(self) -> None:
        while True:
            try:
                await self._listen()
                reason = "the connection was closed"
            except Exception as error:  # noqa: BLE001 - whatever it is, polling goes on and it is tried again
                reason = str(error) or type(error).__name__
            if not self._away:
                log_event(LogEvent.LISTENER_AWAY, logging.WARNING, reason=reason)
            self._away = True
            await asyncio.sleep(self._pause * (1 + draw()) / 2)
            self._pause = min(_LONGEST_PAUSE, self._pause * 2)

    async def _listen(self) -> None:
        """Listens for as long as the connection lasts."""
        connection = await connect(self._address)
        gone = asyncio.Event()
        try:
            connection.add_termination_listener(lambda _: gone.set())
            # Not with wait_for: in Python 3.11 that can lose a cancel, and then nothing would end this any more.
            async with asyncio.timeout(_SIGN_SECONDS):
                await connection.add_listener(CHANNEL, self._heard)
            self._came_back()
            while not gone.is_set():
                with suppress(TimeoutError):
                    async with asyncio.timeout(_SIGN_EVERY):
                        await gone.wait()
                    return
                async with asyncio.timeout(_SIGN_SECONDS):
                    await connection.execute("SELECT")
        finally:
            self._listening = False
            connection.terminate()

    def _came_back(self) -> None:
        """Looks for what was told before anybody listened."""
        if self._away:
            log_event(LogEvent.LISTENER_BACK)
        self._away = False
        self._listening = True
        self._pause = _FIRST_PAUSE
        self._hints.attention()
        self._hints.work()

    def _heard(self, _connection: Any, _pid: int, _channel: str, payload: object) -> None:
        try:
            news = read(str(payload))
        except UnknownPayload:
            return
        if news.sender == self._deaf_to:
            return
        self._hints.changed(news.jobs)
        if news.attention:
            self._hints.attention()
        if news.work and self._wake is None:
            delay = draw() * _SPREAD_SECONDS
            self._wake = asyncio.get_running_loop().call_later(delay, self._wake_workers)

    def _wake_workers(self) -> None:
        self._wake = None
        self._hints.work()
