"""Views: what an analysis wants people to see of a result, stored with a snapshot and rendered by pages."""

from typing import Any, get_args

import msgspec

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
