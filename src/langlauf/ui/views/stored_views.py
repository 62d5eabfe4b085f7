"""The views of a snapshot: those stored with it, or those that its structure suggests.

They mirror the views of the domain, with large parts left as raw JSON.
"""

from itertools import islice

import msgspec
from msgspec import Raw

from langlauf.domain.result import Column, StoredResult
from langlauf.ui.views.raw_json import (
    NULL,
    all_numbers,
    at_pointer,
    is_list,
    is_object,
    is_text,
    items,
    members,
    parse_raw,
    pointer_to,
    raw_text,
)


class RawView(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """A view of a result."""

    title: str = ""


class RawTableView(RawView, frozen=True, kw_only=True, tag="table"):
    """Rows, inline or in the payload."""

    rows: Raw = NULL
    at: str | None = None
    columns: list[Column] = []


class RawChartView(RawView, frozen=True, kw_only=True, tag="chart"):
    """A Vega-Lite specification."""

    spec: Raw
    summary: str = ""


class RawMapView(RawView, frozen=True, kw_only=True, tag="map"):
    """GeoJSON, inline or in the payload."""

    geojson: Raw = NULL
    at: str | None = None
    main: str = ""
    size: str = ""


class RawMarkdownView(RawView, frozen=True, kw_only=True, tag="markdown"):
    """A Markdown text."""

    text: str


class RawImageView(RawView, frozen=True, kw_only=True, tag="image"):
    """An image."""

    media_type: str
    data: bytes
    alt: str = ""


class RawFileView(RawView, frozen=True, kw_only=True, tag="file"):
    """A file to download."""

    name: str
    media_type: str
    data: bytes


class UnreadableView(RawView, frozen=True, kw_only=True, tag="unreadable"):
    """A view of an unknown kind."""


AnyRawView = RawTableView | RawChartView | RawMapView | RawMarkdownView | RawImageView | RawFileView | UnreadableView
_VIEW_DECODER: msgspec.json.Decoder[AnyRawView] = msgspec.json.Decoder(
    RawTableView | RawChartView | RawMapView | RawMarkdownView | RawImageView | RawFileView
)


class ResultViews(msgspec.Struct, frozen=True, kw_only=True):
    """All views of a snapshot, in order; pages and addresses number them from 1."""

    payload: Raw
    views: list[AnyRawView]

    def rows(self, table: RawTableView) -> list[Raw]:
        """Return the rows of a table."""
        return items(_resolve_pointer(self.payload, table.rows, table.at))

    def geojson(self, shown: RawMapView) -> Raw:
        """Return the GeoJSON of a map."""
        return _resolve_pointer(self.payload, shown.geojson, shown.at)

    def view(self, number: int) -> AnyRawView | None:
        """Return the view with this number, or None."""
        return self.views[number - 1] if 0 < number <= len(self.views) else None


def result_views(stored: StoredResult) -> ResultViews:
    """Return the views of a snapshot that has its payload."""
    payload = parse_raw(stored.payload or "null")
    if stored.views is None or not (given := items(parse_raw(stored.views))):
        return ResultViews(payload=payload, views=_suggested_views(payload))
    return ResultViews(payload=payload, views=[_parse_view(one) for one in given])


def _parse_view(text: Raw) -> AnyRawView:
    try:
        return _VIEW_DECODER.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        title = members(text).get("title", NULL)
        return UnreadableView(title=raw_text(title) if is_text(title) else "")


def _suggested_views(payload: Raw) -> list[AnyRawView]:
    views: list[AnyRawView] = []
    shape = suggest_views(payload)
    if shape.map_at is not None:
        views.append(RawMapView(at=shape.map_at))
    if shape.chart is not None:
        views.append(RawChartView(spec=shape.chart))
    if shape.table_at is not None:
        views.append(RawTableView(at=shape.table_at))
    return views


def _resolve_pointer(payload: Raw, given: Raw, pointer: str | None) -> Raw:
    if pointer is None:
        return given
    found = at_pointer(payload, pointer)
    return NULL if found is None else found


_GEOMETRIES = frozenset(
    {"Point", "MultiPoint", "LineString", "MultiLineString", "Polygon", "MultiPolygon", "GeometryCollection"}
)
#: Rows that are inspected to recognise a table.
_SAMPLE_ROWS = 20
#: Depth to which tables are searched.
_MAX_TABLE_DEPTH = 3
#: Limits of the search: values inspected, and bytes of the result.
_MAX_INSPECTED = 2_000
_MAX_INSPECTED_BYTES = 8 * 1024 * 1024
_MIN_SERIES = 2
_MAX_SERIES = 5_000


class SuggestedViews(msgspec.Struct, frozen=True, kw_only=True):
    """Where a result contains a table, a map or a chart."""

    table_at: str | None = None
    map_at: str | None = None
    chart: Raw | None = None


def suggest_views(payload: Raw) -> SuggestedViews:
    """Suggest views: GeoJSON is a map, x and y are a chart, the largest list of objects is a table."""
    if _byte_count(payload) > _MAX_INSPECTED_BYTES:
        return SuggestedViews(table_at=largest_table(payload))
    named = members(payload)
    mapped = _find_map(payload, named)
    return SuggestedViews(
        map_at=mapped, chart=_line_chart(named), table_at=None if mapped == "" else _find_table(payload, mapped)
    )


def is_geojson(value: Raw) -> bool:
    """Whether a value is a GeoJSON object."""
    named = members(value)
    kind = raw_text(named["type"]) if "type" in named else ""
    if kind == "FeatureCollection":
        return is_list(named.get("features", Raw(b"null")))
    if kind == "Feature":
        return "geometry" in named
    return kind in _GEOMETRIES and ("coordinates" in named or "geometries" in named)


def _find_map(payload: Raw, named: dict[str, Raw]) -> str | None:
    if is_geojson(payload):
        return ""
    few = islice(named.items(), _MAX_INSPECTED)
    found = [(_byte_count(value), name) for name, value in few if is_object(value) and is_geojson(value)]
    return pointer_to((max(found)[1],)) if found else None


def _find_table(payload: Raw, elsewhere: str | None) -> str | None:
    """Return the longest list of objects, of those nearest to the top."""
    level: list[tuple[tuple[str, ...], Raw]] = [((), payload)]
    for _ in range(_MAX_TABLE_DEPTH):
        found = [(_byte_count(value), path) for path, value in level if _is_table(value)]
        if found:
            return pointer_to(max(found)[1])
        inside = (
            ((*path, name), one)
            for path, value in level
            if is_object(value)
            for name, one in members(value).items()
            if pointer_to((*path, name)) != elsewhere
        )
        level = list(islice(inside, _MAX_INSPECTED))
    return None


def largest_table(payload: Raw) -> str | None:
    """Return where the largest list of objects is: the payload itself, or one of its members. Reads it once."""
    if is_list(payload):
        return "" if _is_table(payload) else None
    found = [(_byte_count(value), name) for name, value in members(payload).items() if is_list(value)]
    tables = (name for _, name in sorted(found, reverse=True) if _is_table(members(payload)[name]))
    return next((pointer_to((name,)) for name in tables), None)


def _is_table(value: Raw) -> bool:
    sample = items(value)[:_SAMPLE_ROWS]
    return bool(sample) and all(is_object(one) for one in sample)


def _line_chart(named: dict[str, Raw]) -> Raw | None:
    """Return a line chart of `x` and `y`, where both are lists of numbers of the same length."""
    if not {"x", "y"} <= named.keys():
        return None
    across, up = items(named["x"]), items(named["y"])
    if len(across) != len(up) or not _MIN_SERIES <= len(across) <= _MAX_SERIES:
        return None
    if not (all_numbers(across) and all_numbers(up)):
        return None
    values = [{"x": x, "y": y} for x, y in zip(across, up, strict=True)]
    encoding = {axis: {"field": axis, "type": "quantitative"} for axis in ("x", "y")}
    return Raw(msgspec.json.encode({"data": {"values": values}, "mark": "line", "encoding": encoding}))


def _byte_count(value: Raw) -> int:
    return memoryview(value).nbytes
