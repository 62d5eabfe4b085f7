"""What people see of a result: tables, charts, maps, texts, pictures and files, to give to a snapshot.

    await job.partial(payload, views=[views.table(at="/rows", title="Parcels"), views.markdown("**So far.**")])
    return Result(payload, views=[views.chart(altair_chart, summary="Noise falls with distance.")])

Each function checks what it is given and says what to do instead; nothing is drawn here.
"""

import io
import re
from collections.abc import Iterable, Mapping
from typing import Any

from langlauf.domain.errors import ResultTooLarge, UnusableView
from langlauf.domain.result import (
    LARGEST_VIEWS,
    AnyView,
    ChartView,
    Column,
    Fact,
    FileView,
    ImageView,
    MapView,
    MarkdownView,
    TableView,
)
from langlauf.domain.text import pointer_parts

__all__ = ["AnyView", "Column", "Fact", "chart", "fact", "file", "image", "map", "markdown", "table"]

_GEOJSON = frozenset(
    {
        "Feature",
        "FeatureCollection",
        "GeometryCollection",
        "LineString",
        "MultiLineString",
        "MultiPoint",
        "MultiPolygon",
        "Point",
        "Polygon",
    }
)
#: A Vega-Lite specification has one of these; one of Vega itself has `marks`.
_CHARTS = frozenset({"mark", "layer", "concat", "hconcat", "vconcat", "facet", "repeat", "spec"})
_PICTURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_FILES = {
    "csv": "text/csv; charset=utf-8",
    "geojson": "application/geo+json",
    "json": "application/json",
    "md": "text/markdown; charset=utf-8",
    "pdf": "application/pdf",
    "png": "image/png",
    "tsv": "text/tab-separated-values; charset=utf-8",
    "txt": "text/plain; charset=utf-8",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "xml": "application/xml",
    "zip": "application/zip",
}
_MEDIA_TYPE = re.compile(r"^[\w.+-]+/[\w.+-]+(; ?[\w-]+=[\w.-]+)*$", re.ASCII)
_LONGEST_NAME = 120
#: Base64 makes four characters of three bytes.
_LARGEST_BYTES = LARGEST_VIEWS // 4 * 3


def table(
    rows: Iterable[Any] | None = None,
    *,
    at: str | None = None,
    columns: Mapping[str, str] | Iterable[str | Column] = (),
    title: str = "",
) -> TableView:
    """Return a table of rows: dicts by field or lists by position, given here or at a JSON pointer into the result.

    `columns` selects and orders them: names, `views.Column(name=…, title=…, unit=…)`, or a dict of names and headings.
    """
    _one_of("table", rows=rows, at=at)
    return TableView(
        rows=None if rows is None else _rows(rows),
        at=_pointer("table", at),
        columns=_columns(columns),
        title=_text("table", "title", title),
    )


def fact(key: str, label: str = "", *, unit: str = "") -> Fact:
    """Return how pages show a value of the summary, for `@app.analysis(facts=[…])`: its key, a label and a unit.

    Without a label its key is put into words. Pages show facts in the order of the list, then all other values.
    """
    return Fact(key=_text("fact", "key", key), label=_text("fact", "label", label), unit=_text("fact", "unit", unit))


def chart(spec: Any, *, title: str = "", summary: str = "") -> ChartView:
    """Return a chart of a Vega-Lite specification, or of an object with `to_dict()`, such as an Altair chart.

    `summary` describes it in one sentence, for people who cannot see it.
    """
    made = spec.to_dict() if hasattr(spec, "to_dict") else spec
    if not isinstance(made, Mapping) or _CHARTS.isdisjoint(made):
        raise UnusableView(
            f"views.chart cannot show a {type(spec).__name__}; give a Vega-Lite specification as a dict "
            '(with "mark", "layer" or the like), or an Altair chart'
        )
    return ChartView(spec=dict(made), title=_text("chart", "title", title), summary=_text("chart", "summary", summary))


def map(  # noqa: A001 - read as views.map
    geojson: Any = None, *, at: str | None = None, main: str = "", size: str = "", title: str = ""
) -> MapView:
    """Return a map of GeoJSON: a dict, an object with `__geo_interface__`, or a JSON pointer into the result.

    The point with the name `main` stands out; `size` names the property by which points are drawn larger or smaller.
    """
    _one_of("map", geojson=geojson, at=at)
    made = getattr(geojson, "__geo_interface__", geojson)
    if made is not None and (not isinstance(made, Mapping) or made.get("type") not in _GEOJSON):
        raise UnusableView(
            f"views.map cannot show a {type(geojson).__name__}; give GeoJSON as a dict whose "
            '"type" is "FeatureCollection", "Feature" or a geometry'
        )
    return MapView(
        geojson=None if made is None else dict(made),
        at=_pointer("map", at),
        main=_text("map", "main", main),
        size=_text("map", "size", size),
        title=_text("map", "title", title),
    )


def markdown(text: str, *, title: str = "") -> MarkdownView:
    """Return a text with headings, lists, links and emphasis. HTML in it is shown as text."""
    return MarkdownView(text=_text("markdown", "text", text), title=_text("markdown", "title", title))


def image(data: Any, *, media_type: str | None = None, alt: str = "", title: str = "") -> ImageView:
    """Return an image: the bytes of a PNG, JPEG, GIF or WebP, or an object with `savefig`, such as a Matplotlib figure.

    `alt` says what it shows, for people who cannot see it.
    """
    if hasattr(data, "savefig"):
        drawn = io.BytesIO()
        data.savefig(drawn, format="png")
        data = drawn.getvalue()
    content = _bytes("image", data)
    kind = _kind_of_picture(content)
    if kind is None:
        raise UnusableView("views.image shows PNG, JPEG, GIF and WebP; save the picture as PNG, or use views.file")
    if media_type not in (None, kind):
        raise UnusableView(f"views.image: these are the bytes of {kind}, not {media_type}; leave media_type out")
    return ImageView(
        media_type=kind, data=content, alt=_text("image", "alt", alt), title=_text("image", "title", title)
    )


def file(name: str, content: str | bytes, *, media_type: str | None = None, title: str = "") -> FileView:
    """Return a file to download. Without a type it follows from the extension of the name."""
    known = _file_name(name)
    data = _bytes("file", _encoded(content) if isinstance(content, str) else content)
    kind = media_type or _kind_of_file(known, text=isinstance(content, str))
    if not _MEDIA_TYPE.match(kind):
        raise UnusableView(f"views.file: {kind!r} is no media type; write one such as text/csv")
    return FileView(name=known, media_type=kind, data=data, title=_text("file", "title", title))


def _one_of(view: str, **given: Any) -> None:
    """Check that exactly one of two arguments is given."""
    if sum(value is not None for value in given.values()) != 1:
        here, there = given
        raise UnusableView(f'views.{view} takes either {here}=… or {there}="/…", where it stands in the result')


def _pointer(view: str, at: str | None) -> str | None:
    if at is None:
        return None
    try:
        pointer_parts(_text(view, "at", at))
    except ValueError as error:
        raise UnusableView(f"views.{view}: at={error}") from None
    return at


def _text(view: str, name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise UnusableView(f"views.{view}: {name} is a text, not a {type(value).__name__}; write str(…) around it")
    return value


def _rows(rows: Iterable[Any]) -> list[Any]:
    if isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Iterable):
        raise UnusableView(f"views.table: rows is a list of dicts or of lists, not a {type(rows).__name__}{_FRAMES}")
    made = list(rows)
    for number, row in enumerate(made):
        if not isinstance(row, Mapping | list | tuple):
            raise UnusableView(
                f"views.table: a row is a dict or a list, but rows[{number}] is a {type(row).__name__}{_FRAMES}"
            )
    return made


_FRAMES = '; of a data frame give frame.to_dict("records")'


def _columns(columns: Mapping[str, str] | Iterable[str | Column]) -> list[Column]:
    if isinstance(columns, Mapping):
        columns = [Column(name=_text("table", "columns", name), title=title) for name, title in columns.items()]
    elif isinstance(columns, str):
        raise UnusableView(f"views.table: columns is a list; write columns=[{columns!r}]")
    made = [Column(name=column) if isinstance(column, str) else column for column in columns]
    for column in made:
        if not isinstance(column, Column):
            raise UnusableView(
                f"views.table: a column is a name or a views.Column(name=…), not a {type(column).__name__}"
            )
        for part in (column.name, column.title, column.unit):
            _text("table", "columns", part)
    return made


def _bytes(view: str, content: Any) -> bytes:
    if not isinstance(content, bytes | bytearray | memoryview):
        raise UnusableView(f"views.{view} takes bytes, not a {type(content).__name__}; read the file in first")
    data = bytes(content)
    if len(data) > _LARGEST_BYTES:
        raise ResultTooLarge(
            f"views.{view} has {len(data):,} bytes, and all views of a snapshot have room for {_LARGEST_BYTES:,}; "
            "make it smaller, or name in the result where it is kept"
        )
    return data


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise UnusableView("views.file: the text contains half of a surrogate pair; give its bytes instead") from None


def _kind_of_picture(data: bytes) -> str | None:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _PICTURES if data.startswith(start)), None)


def _file_name(name: Any) -> str:
    text = _text("file", "name", name)
    if not text.strip(". ") or len(text) > _LONGEST_NAME or not text.isprintable() or set(text) & set('/\\:*?"<>|'):
        raise UnusableView(f"views.file: {text[:_LONGEST_NAME]!r} is no name for a file; write one such as parcels.csv")
    return text


def _kind_of_file(name: str, *, text: bool) -> str:
    otherwise = "text/plain; charset=utf-8" if text else "application/octet-stream"
    return _FILES.get(name.rpartition(".")[2].lower(), otherwise)
