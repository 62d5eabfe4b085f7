"""What there is to see of a snapshot: the views that were stored with it, or what its shape suggests.

These are the views of `domain.showing` with the large parts left as they were written.
"""

import msgspec
from msgspec import Raw

from langlauf.domain.result import StoredResult
from langlauf.domain.showing import Column
from langlauf.ui.showing.shapes import by_shape
from langlauf.ui.showing.written import NULL, at, is_text, items, members, text_of, written


class Shown(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """One thing to look at."""

    title: str = ""


class ShownTable(Shown, frozen=True, kw_only=True, tag="table"):
    """Rows, here or in the payload."""

    rows: Raw = NULL
    at: str | None = None
    columns: list[Column] = []


class ShownChart(Shown, frozen=True, kw_only=True, tag="chart"):
    """A Vega-Lite specification."""

    spec: Raw
    summary: str = ""


class ShownMap(Shown, frozen=True, kw_only=True, tag="map"):
    """GeoJSON, here or in the payload."""

    geojson: Raw = NULL
    at: str | None = None


class ShownMarkdown(Shown, frozen=True, kw_only=True, tag="markdown"):
    """A text."""

    text: str


class ShownImage(Shown, frozen=True, kw_only=True, tag="image"):
    """A picture."""

    media_type: str
    data: bytes
    alt: str = ""


class ShownFile(Shown, frozen=True, kw_only=True, tag="file"):
    """Something to download."""

    name: str
    media_type: str
    data: bytes


class Unreadable(Shown, frozen=True, kw_only=True, tag="unreadable"):
    """A view that this version does not know."""


AnyShown = ShownTable | ShownChart | ShownMap | ShownMarkdown | ShownImage | ShownFile | Unreadable
_STORED: msgspec.json.Decoder[AnyShown] = msgspec.json.Decoder(
    ShownTable | ShownChart | ShownMap | ShownMarkdown | ShownImage | ShownFile
)


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """Everything there is to see of one snapshot, in its order; pages and addresses count the views from 1."""

    payload: Raw
    views: list[AnyShown]

    def rows(self, table: ShownTable) -> list[Raw]:
        """The rows of a table."""
        return items(_found(self.payload, table.rows, table.at))

    def geojson(self, shown: ShownMap) -> Raw:
        """What a map shows."""
        return _found(self.payload, shown.geojson, shown.at)

    def view(self, number: int) -> AnyShown | None:
        """The view of this number."""
        return self.views[number - 1] if 0 < number <= len(self.views) else None


def seen(stored: StoredResult) -> Seen:
    """What there is to see of a snapshot whose payload is there."""
    payload = written(stored.payload or "null")
    if stored.views is None or not (given := items(written(stored.views))):
        return Seen(payload=payload, views=_suggested(payload))
    return Seen(payload=payload, views=[_view(one) for one in given])


def _view(text: Raw) -> AnyShown:
    try:
        return _STORED.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        title = members(text).get("title", NULL)
        return Unreadable(title=text_of(title) if is_text(title) else "")


def _suggested(payload: Raw) -> list[AnyShown]:
    views: list[AnyShown] = []
    shape = by_shape(payload)
    if shape.map_at is not None:
        views.append(ShownMap(at=shape.map_at))
    if shape.chart is not None:
        views.append(ShownChart(spec=shape.chart))
    if shape.table_at is not None:
        views.append(ShownTable(at=shape.table_at))
    return views


def _found(payload: Raw, given: Raw, pointer: str | None) -> Raw:
    if pointer is None:
        return given
    found = at(payload, pointer)
    return NULL if found is None else found
