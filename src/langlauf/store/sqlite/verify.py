"""Checks a file against every invariant: read-only, on one snapshot, beside a running server, row by row."""

from collections.abc import Iterator

import apsw

from langlauf.clock import machine_time
from langlauf.domain.instant import Instant
from langlauf.store.blobs.blocking import BlockingPayloads
from langlauf.store.sqlite.clock import SteadyClock
from langlauf.store.sqlite.snapshot import snapshot_of
from langlauf.store.tools.verify import Violation, Watch, check


def verify_file(path: str) -> list[Violation]:
    """Everything in the file that breaks a rule; warnings aside. Raises `StoreError` where it cannot be checked."""
    return [found for found in check_file(path) if not found.warning]


def check_file(
    path: str,
    *,
    now: Instant | None = None,
    watch: Watch = lambda *_: None,
    payloads: BlockingPayloads | None = None,
) -> Iterator[Violation]:
    """What breaks a rule, warnings included, as it is found. Without `payloads` blobs are only counted."""
    try:
        with snapshot_of(path) as snapshot:
            now = SteadyClock(machine_time()).look(snapshot.connection) if now is None else now
            yield from check(snapshot, now, watch=watch, payloads=payloads)
    except apsw.CorruptError as error:
        yield Violation("integrity", None, None, str(error))
