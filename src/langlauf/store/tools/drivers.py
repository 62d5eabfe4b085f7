"""Commands over a whole store, by the driver of its location."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import partial

from langlauf.store.blobs.owner import BlockingPayloads
from langlauf.store.sqlite import inspection, snapshot
from langlauf.store.sqlite.snapshot import snapshot_of
from langlauf.store.tools.inspection import Inspector
from langlauf.store.tools.location import PostgresLocation, StoreLocation
from langlauf.store.tools.store_copy import CopyRefused, CopyReport, CopyTarget, OpenSource, StoreCopy
from langlauf.store.tools.verify import Violation, Watch

# The library of PostgreSQL comes with an extra: its modules are imported where a database is named.


def check_store(place: StoreLocation, *, watch: Watch, payloads: BlockingPayloads | None) -> Iterator[Violation]:
    """Return violations, warnings included, as they are found. Without `payloads` blobs are only counted."""
    if isinstance(place, PostgresLocation):
        from langlauf.store.postgres.snapshot import check_database

        return check_database(place.url, watch=watch, payloads=payloads)
    return snapshot.check_file(place.path, watch=watch, payloads=payloads)


def inspector_of(place: StoreLocation, *, seconds: float) -> Inspector:
    """Return an inspector of a store in any state; each query may take so long. Raise `StoreError` without a store."""
    if isinstance(place, PostgresLocation):
        from langlauf.store.postgres.inspection import PostgresInspector

        return PostgresInspector(place.url, seconds=seconds)
    return inspection.SqliteInspector(place.path)


def copy_store(source: StoreLocation, target: StoreLocation, *, running: bool, watch: Watch) -> CopyReport:
    """Copy a whole store into an empty one, or resume a copy; raise `CopyRefused` where it must not be copied."""
    if source.shown == target.shown:
        raise CopyRefused(f"{source.shown} cannot be copied into itself")
    with _reading(source)() as first:
        first.live_leases()  # a source that cannot be read makes no target
    if not isinstance(source, PostgresLocation) and _has_unnamed_jobs(source.path):
        raise CopyRefused(
            f"{source.shown} has jobs of the earlier system that belong to no analysis yet: "
            "start `langlauf serve` on it once, with the application that is to run them"
        )
    with _target(target) as opened:
        return StoreCopy(_reading(source), opened, _reading(target, unfinished=True), watch).run(running=running)


def _has_unnamed_jobs(path: str) -> bool:
    """Whether jobs of the earlier system wait for their analysis; a file of another schema has none."""
    with snapshot_of(path, unfinished=True) as snapshot:
        return bool(list(snapshot.rows("an_unnamed_job")))


def _reading(place: StoreLocation, *, unfinished: bool = False) -> OpenSource:
    if isinstance(place, PostgresLocation):
        from langlauf.store.postgres.snapshot import source_of

        return partial(source_of, place.url, unfinished=unfinished)
    return partial(snapshot.source_of, place.path, unfinished=unfinished)


def _target(place: StoreLocation) -> AbstractContextManager[CopyTarget]:
    if isinstance(place, PostgresLocation):
        from langlauf.store.postgres.snapshot import target_of

        return target_of(place.url)
    return snapshot.target_of(place.path)
