"""What an analysis wants people to see of a result: views, stored with a snapshot and drawn by pages."""

from typing import Any, get_args

import msgspec

#: A page with more than that shows nothing any more.
MOST_VIEWS = 20
#: Bytes of JSON that all views of one snapshot may have: what is larger belongs into the result, or into a file of it.
LARGEST_VIEWS = 2 * 1024 * 1024


class View(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", omit_defaults=True):
    """One thing to look at. `title` stands above it; what people read is text and never markup."""

    title: str = ""


class Column(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A column of a table: the name of a field, and how it is headed."""

    name: str
    title: str = ""
    unit: str = ""


class TableView(View, frozen=True, kw_only=True, tag="table"):
    """Rows: objects by field, or lists by position. `at` is a JSON pointer into the result where they stand there."""

    rows: list[Any] | None = None
    at: str | None = None
    columns: list[Column] = []


class ChartView(View, frozen=True, kw_only=True, tag="chart"):
    """A Vega-Lite specification. `summary` says in one sentence what it shows, for those who do not see it."""

    spec: dict[str, Any]
    summary: str = ""


class MapView(View, frozen=True, kw_only=True, tag="map"):
    """GeoJSON, or where it stands in the result."""

    geojson: dict[str, Any] | None = None
    at: str | None = None


class MarkdownView(View, frozen=True, kw_only=True, tag="markdown"):
    """A text. Markup in it is shown and does nothing."""

    text: str


class ImageView(View, frozen=True, kw_only=True, tag="image"):
    """A picture: its bytes are base64 in JSON. `alt` says what it shows."""

    media_type: str
    data: bytes
    alt: str = ""


class FileView(View, frozen=True, kw_only=True, tag="file"):
    """Something to download: its bytes are base64 in JSON."""

    name: str
    media_type: str
    data: bytes


AnyView = TableView | ChartView | MapView | MarkdownView | ImageView | FileView
VIEW_KINDS = tuple(str(kind.__struct_config__.tag) for kind in get_args(AnyView))


def views_from(text: str | None) -> list[AnyView]:
    """The views that were stored with a snapshot."""
    return [] if text is None else msgspec.json.decode(text, type=list[AnyView])
