"""The probes over a store without its fence, run by workers that are slow to stop.

A harness that finds no fault here would find none anywhere. Either of the two alone mostly prevents stale writes.
"""

import asyncio
import re

from langlauf.store import sql as queries
from langlauf.store.sqlite import engine
from langlauf.worker.attempt import RunningAttempt, StopReason
from tests.faults.probes import app

_SLOW_SECONDS = 0.5
_FENCES = re.compile(r"\battempt = (\?4) AND lease_expires_at > (\?\d)")
_load = queries.load_queries


def _load_unfenced(package: str, *files: str) -> dict[str, str]:
    """Return the store's statements without the condition on the lease."""
    return {name: _FENCES.sub(r"\1 AND \2", sql) for name, sql in _load(package, *files).items()}


engine._FENCE = "TRUE"
engine.load_queries = _load_unfenced  # type: ignore[attr-defined, assignment]  # what it has imported
_stop = RunningAttempt.stop


def _stop_slowly(attempt: RunningAttempt, why: StopReason) -> None:
    asyncio.get_running_loop().call_later(_SLOW_SECONDS if why is StopReason.LOST else 0, _stop, attempt, why)


RunningAttempt.stop = _stop_slowly  # type: ignore[method-assign, assignment]  # this is what is taken away

__all__ = ["app"]
