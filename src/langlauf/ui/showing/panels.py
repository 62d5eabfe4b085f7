"""The panels of a snapshot, in the order in which they are shown."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

import msgspec
from markupsafe import Markup
from msgspec import Raw

from langlauf.domain.result import StoredResult
from langlauf.telemetry.log import LogEvent, log_event
from langlauf.ui.formatting import LARGEST_JSON, excerpt, size
from langlauf.ui.rendering import Rendering
from langlauf.ui.showing.charts import Refused, axes_of, harmless, rows_of
from langlauf.ui.showing.drawing import Drawn, NotDrawn, drawing_board
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
_CHART_SECONDS = 15.0


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to look at. `name` is its anchor on the page."""

    name: str
    title: str
    html: Markup


class _Budget:
    """How long a page waits for all its charts together."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds

    async def spend(self, drawing: Awaitable[Drawn | NotDrawn]) -> Drawn | NotDrawn:
        """What was drawn in the time that is left; what takes longer is drawn to its end, and kept for the next one."""
        try:
            async with asyncio.timeout(self._until - time.monotonic()):
                return await drawing
        except TimeoutError:
            return NotDrawn("busy")


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a view is shown: for whom, of which snapshot, and its number there."""

    visit: Visit
    result_id: str
    number: int
    drawing: _Budget

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
        return await self.panels_of(visit, stored, await asyncio.to_thread(seen, stored))

    async def panels_of(self, visit: Visit, stored: StoredResult, found: Seen) -> list[Panel]:
        """The same for whoever has looked at it before."""
        if stored.payload is None:
            return []
        drawing = _Budget(_CHART_SECONDS)
        panels = []
        for number, view in enumerate(found.views[:MOST_VIEWS], 1):
            place = Place(visit=visit, result_id=stored.snapshot.result_id, number=number, drawing=drawing)
            title = view.title or str(visit.language.say(f"showing.kind.{_kind(view)}"))
            html = await self._drawn(place, found, view)
            panels.append(Panel(name=f"{_kind(view)}-{number}", title=title, html=html))
        return [*panels, Panel(name="json", title="JSON", html=self._json(visit, found.payload))]

    async def _drawn(self, place: Place, found: Seen, view: AnyShown) -> Markup:
        """A view; one that cannot be drawn does not take the others with it."""
        try:
            return await self._view(place, found, view)
        except (TypeError, ValueError, LookupError, AttributeError, RecursionError) as error:
            log_event(LogEvent.REQUEST_FAILED, logging.WARNING, error=error, request_id=place.visit.request_id)
            return self._html(place, "unreadable")

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
        rows = await asyncio.to_thread(found.rows, view)
        return self._html(place, "table", grid=grid_of(rows, view.columns), most=MOST_ROWS)

    async def _chart(self, place: Place, _: Seen, view: ShownChart) -> Markup:
        tables = [grid_of(rows, []) for rows in rows_of(view.spec)]
        try:
            spec = harmless(view.spec)
        except Refused as refused:
            return self._html(place, "chart", drawn=None, trouble=refused.why, tables=tables)
        drawn = await place.drawing.spend(self._board.draw(spec, "light"))
        if isinstance(drawn, NotDrawn):
            return self._html(place, "chart", drawn=None, trouble=drawn.trouble, tables=tables)
        small = harmless(view.spec, "narrow")
        narrow = drawn if small == spec else await place.drawing.spend(self._board.draw(small, "light"))
        values = {"drawn": drawn, "narrow": None if isinstance(narrow, NotDrawn) or narrow is drawn else narrow}
        return self._html(
            place, "chart", **values, alt=view.summary, axes=axes_of(spec), title=view.title, tables=tables
        )

    async def _map(self, place: Place, found: Seen, view: ShownMap) -> Markup:
        features = await asyncio.to_thread(lambda: features_of(found.geojson(view)))
        plan = await asyncio.to_thread(plan_of, features)
        rows = [one.properties for one in features.drawn if members(one.properties)]
        return self._html(place, "map", plan=plan, features=features, grid=grid_of(rows, []) if rows else None)

    async def _markdown(self, place: Place, _: Seen, view: ShownMarkdown) -> Markup:
        html = await asyncio.to_thread(html_of, view.text[:LONGEST])
        return self._html(place, "markdown", text=html, cut=len(view.text) > LONGEST)

    async def _image(self, place: Place, _: Seen, view: ShownImage) -> Markup:
        picture = picture_of(view.data, view.media_type)
        return self._html(place, "image", picture=picture, view=view, size=size(len(view.data)))

    async def _file(self, place: Place, _: Seen, view: ShownFile) -> Markup:
        return self._html(place, "file", view=view, size=size(len(view.data)))

    def _json(self, visit: Visit, payload: Raw) -> Markup:
        place = Place(visit=visit, result_id="", number=0, drawing=_Budget(0))
        steps = steps_of(payload)
        large = memoryview(payload).nbytes > LARGEST_JSON  # then no line of it is shown
        body = excerpt(bytes(payload if large else masked(payload)).decode())
        return self._html(place, "json", steps=steps, body=body)

    def _html(self, place: Place, name: str, **values: Any) -> Markup:
        address = {"address": place.address, "number": place.number}
        text = self._rendering.html(place.visit, f"showing/{name}.html", **address, **values)
        return Markup(text)  # noqa: S704 - a template's own output, escaped when it was made


def _kind(view: AnyShown) -> str:
    return str(view.__struct_config__.tag)
