"""The panels of a snapshot, in the order in which they are shown."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

import msgspec
from markupsafe import Markup
from msgspec import Raw

from langlauf.domain.result import StoredResult
from langlauf.ui.formatting import excerpt, size
from langlauf.ui.rendering import Rendering
from langlauf.ui.showing.charts import Refused, axes_of, harmless, rows_of
from langlauf.ui.showing.drawing import NotDrawn, drawing_board
from langlauf.ui.showing.geometry import features_of
from langlauf.ui.showing.maps import plan_of
from langlauf.ui.showing.markdown import LONGEST, html_of
from langlauf.ui.showing.pictures import picture_of
from langlauf.ui.showing.table import MOST_ROWS, grid_of
from langlauf.ui.showing.tree import steps_of
from langlauf.ui.showing.views import (
    AnyShown,
    Seen,
    ShownChart,
    ShownFile,
    ShownImage,
    ShownMap,
    ShownMarkdown,
    ShownTable,
    seen,
)
from langlauf.ui.showing.written import masked, members
from langlauf.ui.visit import Visit

#: More than this nobody reads; what lies beyond is in the JSON.
MOST_VIEWS = 24


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to look at. `name` is its anchor on the page."""

    name: str
    title: str
    html: Markup


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a view is shown: for whom, of which snapshot, and its number there."""

    visit: Visit
    result_id: str
    number: int

    @property
    def address(self) -> str:
        """Where what is not part of the page itself is kept: a picture, a file."""
        return f"{self.visit.root}results/{quote(self.result_id, safe='')}/views/{self.number}"


class Showing:
    """Draws what a snapshot holds."""

    def __init__(self, rendering: Rendering) -> None:
        self._rendering = rendering
        self._board = drawing_board()

    async def panels(self, visit: Visit, stored: StoredResult) -> list[Panel]:
        """All panels of a snapshot whose payload is there."""
        if stored.payload is None:
            return []
        found = await asyncio.to_thread(seen, stored)
        panels = []
        for number, view in enumerate(found.views[:MOST_VIEWS], 1):
            place = Place(visit=visit, result_id=stored.snapshot.result_id, number=number)
            title = view.title or str(visit.language.say(f"showing.kind.{_kind(view)}"))
            html = await self._view(place, found, view)
            panels.append(Panel(name=f"{_kind(view)}-{number}", title=title, html=html))
        return [*panels, Panel(name="json", title="JSON", html=self._json(visit, found.payload))]

    async def _view(self, place: Place, found: Seen, view: AnyShown) -> Markup:
        by_kind: dict[type[AnyShown], Callable[[Place, Seen, Any], Awaitable[Markup]]] = {
            ShownTable: self._table,
            ShownChart: self._chart,
            ShownMap: self._map,
            ShownMarkdown: self._markdown,
            ShownImage: self._image,
            ShownFile: self._file,
        }
        draw = by_kind.get(type(view))
        return self._html(place, "unreadable") if draw is None else await draw(place, found, view)

    async def _table(self, place: Place, found: Seen, view: ShownTable) -> Markup:
        return self._html(place, "table", grid=grid_of(found.rows(view), view.columns), most=MOST_ROWS)

    async def _chart(self, place: Place, _: Seen, view: ShownChart) -> Markup:
        tables = [grid_of(rows, []) for rows in rows_of(view.spec)]
        try:
            spec = harmless(view.spec)
        except Refused as refused:
            return self._html(place, "chart", drawn=None, trouble=refused.why, tables=tables)
        drawn = await self._board.draw(spec, "light")
        if isinstance(drawn, NotDrawn):
            return self._html(place, "chart", drawn=None, trouble=drawn.trouble, tables=tables)
        small = harmless(view.spec, "narrow")
        narrow = drawn if small == spec else await self._board.draw(small, "light")
        values = {"drawn": drawn, "narrow": None if isinstance(narrow, NotDrawn) or narrow is drawn else narrow}
        return self._html(
            place, "chart", **values, alt=view.summary, axes=axes_of(spec), title=view.title, tables=tables
        )

    async def _map(self, place: Place, found: Seen, view: ShownMap) -> Markup:
        features = await asyncio.to_thread(features_of, found.geojson(view))
        plan = plan_of(features)
        rows = [one.properties for one in features.drawn if members(one.properties)]
        return self._html(place, "map", plan=plan, features=features, grid=grid_of(rows, []) if rows else None)

    async def _markdown(self, place: Place, _: Seen, view: ShownMarkdown) -> Markup:
        return self._html(place, "markdown", text=html_of(view.text), cut=len(view.text) > LONGEST)

    async def _image(self, place: Place, _: Seen, view: ShownImage) -> Markup:
        picture = picture_of(view.data, view.media_type)
        return self._html(place, "image", picture=picture, view=view, size=size(len(view.data)))

    async def _file(self, place: Place, _: Seen, view: ShownFile) -> Markup:
        return self._html(place, "file", view=view, size=size(len(view.data)))

    def _json(self, visit: Visit, payload: Raw) -> Markup:
        place = Place(visit=visit, result_id="", number=0)
        steps = steps_of(payload)
        body = excerpt(bytes(masked(payload)).decode() if steps is not None else bytes(payload).decode())
        return self._html(place, "json", steps=steps, body=body)

    def _html(self, place: Place, name: str, **values: Any) -> Markup:
        address = {"address": place.address, "number": place.number}
        text = self._rendering.html(place.visit, f"showing/{name}.html", **address, **values)
        return Markup(text)  # noqa: S704 - a template's own output, escaped when it was made


def _kind(view: AnyShown) -> str:
    return str(view.__struct_config__.tag)
