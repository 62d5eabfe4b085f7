"""Snapshots: partial and final results of a job, their views, payloads that are read in pieces, and retention."""

from collections.abc import Hashable
from typing import Any, Literal, Protocol, get_args

import msgspec

from langlauf.domain.instant import Instant

# -- views -------------------------------------------------------------------------------------------------------------

#: The most views of one snapshot.
MOST_VIEWS = 20
#: The most bytes of JSON for all views of one snapshot: larger data belongs in the result.
LARGEST_VIEWS = 2 * 1024 * 1024


class View(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", omit_defaults=True):
    """One view. `title` is its heading; texts are never interpreted as markup."""

    title: str = ""


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """A value of a summary as people read it: its key, its label and its unit."""

    key: str
    label: str = ""
    unit: str = ""


class Column(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A column of a table: the name of a field, and its heading."""

    name: str
    title: str = ""
    unit: str = ""


class TableView(View, frozen=True, kw_only=True, tag="table"):
    """Rows: objects by field, or lists by position. `at` is a JSON pointer to rows in the result."""

    rows: list[Any] | None = None
    at: str | None = None
    columns: list[Column] = []


class ChartView(View, frozen=True, kw_only=True, tag="chart"):
    """A Vega-Lite specification. `summary` describes it in one sentence, for people who cannot see it."""

    spec: dict[str, Any]
    summary: str = ""


class MapView(View, frozen=True, kw_only=True, tag="map"):
    """GeoJSON, or a JSON pointer to it in the result. `main` names the feature that stands out, `size` a property."""

    geojson: dict[str, Any] | None = None
    at: str | None = None
    main: str = ""
    size: str = ""


class MarkdownView(View, frozen=True, kw_only=True, tag="markdown"):
    """Markdown text. HTML in it is shown as text."""

    text: str


class ImageView(View, frozen=True, kw_only=True, tag="image"):
    """An image, base64 in JSON. `alt` says what it shows."""

    media_type: str
    data: bytes
    alt: str = ""


class FileView(View, frozen=True, kw_only=True, tag="file"):
    """A file to download, base64 in JSON."""

    name: str
    media_type: str
    data: bytes


AnyView = TableView | ChartView | MapView | MarkdownView | ImageView | FileView
VIEW_KINDS = tuple(str(kind.__struct_config__.tag) for kind in get_args(AnyView))


def views_from(text: str | None) -> list[AnyView]:
    """Return the views that were stored with a snapshot."""
    return [] if text is None else msgspec.json.decode(text, type=list[AnyView])


# -- snapshots ---------------------------------------------------------------------------------------------------------

ResultKind = Literal["partial", "final"]
SCHEMA_VERSION = 1


class Snapshot(msgspec.Struct, frozen=True):
    """A stored result without its payload. Fields are in the order of the table's columns."""

    org_id: str
    result_id: str
    job_id: str
    result_kind: ResultKind
    result_seq: int
    schema_version: int
    result_payload_ref: str
    created_at: Instant
    #: JSON text, as stored
    summary_json: str | None
    #: set if retention removed the payload: the row is then a tombstone
    removed_at: Instant | None = None


class ReferencedPayloads(msgspec.Struct, frozen=True):
    """The payloads outside the store that snapshots of one job still reference."""

    #: the job has ended, so no reference will be added
    ended: bool
    #: references of snapshots that retention has not removed
    refs: frozenset[str]


class StoredResult(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot with its payload, as JSON text that is never decoded on the way out."""

    snapshot: Snapshot
    payload: str | None
    #: the views of the analysis, as JSON text
    views: str | None = None
    #: the name of its schema if the earlier system gave it one; `schema_version` has its number
    schema_text: str | None = None


#: A payload up to this size is read at once.
SMALL_PAYLOAD = 65_536


class PayloadSource(Protocol):
    """The payload of one snapshot as bytes of JSON text, read in pieces.

    A read from start to end returns exactly what was written. If a piece was removed meanwhile or is damaged, reading
    raises: the client sees that the response is cut, because its length was sent before.
    """

    @property
    def size(self) -> int:
        """Return the size in bytes."""

    @property
    def whole(self) -> bytes | None:
        """Return all of it if it is small."""

    @property
    def holds(self) -> int:
        """Return the most memory that reading it takes."""

    @property
    def share(self) -> Hashable | None:
        """Return the key under which readers of the same payload share that memory, or None."""

    async def read(self, start: int) -> bytes | memoryview:
        """Return the next piece from `start` on; raise `PayloadGone` if it was removed."""


# -- retention ---------------------------------------------------------------------------------------------------------
# A hold belongs to a job: its results stay together, with the record that says where they came from.


class RetentionPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How long records are kept after a job's end, in seconds; None keeps them for ever."""

    final_results: float | None
    partial_results: float | None
    events: float | None
    jobs: float | None


class RetentionCount(msgspec.Struct, frozen=True, kw_only=True):
    """What retention removed, or would remove, of one kind of record."""

    delete_count: int
    #: None if it was not counted
    kept_count: int | None
    #: ended jobs that have such records and are old enough
    eligible_terminal: int
    #: ended jobs without a valid end time
    skipped_missing_timestamp: int | None


class RetentionReport(msgspec.Struct, frozen=True, kw_only=True):
    """The report of one run."""

    dry_run: bool
    terminal_job_count: int | None
    results: RetentionCount
    events: RetentionCount
    jobs_deleted: int


class HoldRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Request to hold a result, or to release it. Holding a held result changes nothing."""

    org_id: str
    result_id: str
    #: False releases it
    held: bool = True
    by: str | None = None
    reason: str | None = None


class ResultGone(msgspec.Struct, frozen=True):
    """Retention removed the result before it was held."""

    job_id: str
    removed_at: Instant
