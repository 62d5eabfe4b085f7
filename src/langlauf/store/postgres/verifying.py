"""Checks a database against every invariant: read-only, on one snapshot, beside running servers, row by row."""

from collections.abc import Iterator

from langlauf.domain.instant import Instant
from langlauf.store.blobs.blocking import BlockingPayloads
from langlauf.store.postgres.snapshot import snapshot_of
from langlauf.store.tools.verify import Violation, Watch, check


def check_database(
    url: str,
    *,
    now: Instant | None = None,
    watch: Watch = lambda *_: None,
    payloads: BlockingPayloads | None = None,
) -> Iterator[Violation]:
    """What breaks a rule, warnings included, as it is found. Without `payloads` blobs are only counted."""
    with snapshot_of(url) as snapshot:
        [[at]] = snapshot.rows("now")
        yield from check(snapshot, at if now is None else now, watch=watch, payloads=payloads)
