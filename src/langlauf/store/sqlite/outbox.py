"""Fills the outbox in the transaction of the events that it tells of."""

from collections.abc import Mapping, Sequence
from typing import Any

import apsw

from langlauf.domain.event import FINAL_EVENTS, EventType
from langlauf.store.rows import json_text
from langlauf.store.sqlite.memory import Memory


def fill_outbox(
    connection: apsw.Connection,
    queries: Mapping[str, str],
    memory: Memory,
    events: Sequence[tuple[int, int, EventType]],
) -> None:
    """Leaves the messages about events, by job, number and kind. Mostly nobody wants any: that is seen at a glance."""
    if memory.listening is None:
        memory.listening = frozenset(str(org_id) for (org_id,) in connection.execute(queries["any_endpoints"]))
    listening = memory.listening
    if memory.any_wishes is None:
        memory.any_wishes = bool(connection.execute(queries["wishes_exist"]).get)
    ends = [job for job, _, kind in events if kind in FINAL_EVENTS] if memory.any_wishes else []
    wished: set[Any] = set()
    if ends:
        wished = {job for (job,) in connection.execute(queries["any_wishes"], {"jobs": json_text(ends)})}
    if not listening and not wished:
        return
    for job, seq, kind in events:
        row = connection.execute(queries["outgoing_event"], {"job": job, "event_seq": seq}).fetchall()
        if row and (row[0][0] in listening or (job in wished and kind in FINAL_EVENTS)):
            names = (
                "org_id", "job_id", "event_seq", "event_id", "event_type", "occurred_at", "trace_id", "result_id",
            )  # fmt: skip
            connection.execute(queries["fill_outbox"], dict(zip(names, row[0], strict=True)))
