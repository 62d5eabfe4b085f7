"""Leaves a note in the store when a duty has succeeded: now and then, so that it costs next to nothing."""

import logging
import socket

from langlauf.clock import monotonic
from langlauf.domain.errors import StoreUnhealthy
from langlauf.store.admin import DutyStore
from langlauf.telemetry.log import LogEvent, log_event

#: A note is not written again within so many seconds.
NOTE_SECONDS = 10.0


class DutyNotes:
    """The notes of one process. A store that is away costs a note; the duty itself has succeeded all the same."""

    def __init__(self, store: DutyStore, *, every: float = NOTE_SECONDS) -> None:
        self._store = store
        self._every = every
        self._noted: dict[str, float] = {}

    async def note(self, name: str) -> None:
        """A duty has just done what it is for."""
        now = monotonic()
        if name in self._noted and now - self._noted[name] < self._every:
            return
        try:
            await self._store.note(name, socket.gethostname())
        except StoreUnhealthy:
            return  # logged once, by the health of the store
        except Exception as error:  # noqa: BLE001 - the next success tries again
            log_event(LogEvent.UPKEEP_FAILED, logging.WARNING, duty=name, reason=str(error))
            return
        self._noted[name] = now
