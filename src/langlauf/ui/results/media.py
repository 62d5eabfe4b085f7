"""What a view shows besides text: charts, pictures and files, each at an address of its own where nothing can run."""

import asyncio
import re

from starlette.responses import Response

from langlauf.api.context import Context
from langlauf.api.parameters import choice
from langlauf.auth.caller import Caller
from langlauf.problems import VARY, not_found
from langlauf.ui.results.downloads import attachment
from langlauf.ui.results.finding import snapshot_of, still_there
from langlauf.ui.showing.chart_theme import Theme
from langlauf.ui.showing.charts import Refused, Room, harmless
from langlauf.ui.showing.drawing import NotDrawn, drawing_board
from langlauf.ui.showing.panels import MOST_VIEWS
from langlauf.ui.showing.pictures import download_type, picture_of
from langlauf.ui.showing.views import AnyShown, ShownChart, ShownFile, ShownImage, seen
from langlauf.ui.visit import Visit

#: A snapshot never changes. A day, because a new version of ours may draw it in another way.
_KEPT = "private, max-age=86400, immutable"
_SAFE = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": _KEPT,
    "Vary": VARY,
}
_NUMBER = re.compile(r"[1-9][0-9]?", re.ASCII)


class Media:
    """`/results/{result_id}/views/{number}`: pictures and files; with `.svg` charts."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def chart(self, visit: Visit, caller: Caller) -> Response:
        """A chart as SVG."""
        wish = choice(visit.request, "theme", ("light", "dark"))
        theme: Theme = "dark" if wish == "dark" else "light"
        room: Room = "narrow" if choice(visit.request, "size", ("wide", "narrow")) == "narrow" else "wide"
        view = await self._view(visit, caller)
        if not isinstance(view, ShownChart):
            raise not_found()
        try:
            drawn = await drawing_board().draw(harmless(view.spec, room), theme)
        except Refused:
            raise not_found() from None
        if isinstance(drawn, NotDrawn):
            raise not_found()
        return Response(drawn.svg, headers=_SAFE, media_type="image/svg+xml")

    async def piece(self, visit: Visit, caller: Caller) -> Response:
        """A picture to look at, where it is one; a file, or any other picture, to be saved."""
        view = await self._view(visit, caller)
        if isinstance(view, ShownFile):
            return Response(view.data, headers=attachment(view.name), media_type=download_type(view.media_type))
        if not isinstance(view, ShownImage):
            raise not_found()
        picture = picture_of(view.data, view.media_type)
        if picture is None or "download" in visit.request.query_params:
            kind = "bin" if picture is None else picture.media_type.removeprefix("image/")
            media_type = "application/octet-stream" if picture is None else picture.media_type
            return Response(view.data, headers=attachment(f"{view.title or 'image'}.{kind}"), media_type=media_type)
        return Response(view.data, headers=_SAFE, media_type=picture.media_type)

    async def _view(self, visit: Visit, caller: Caller) -> AnyShown | None:
        number = visit.request.path_params["number"]
        if not _NUMBER.fullmatch(number) or int(number) > MOST_VIEWS:
            raise not_found()
        found = await snapshot_of(self._context.services.reads.of(caller), visit, latest=False)
        looked = await asyncio.to_thread(seen, still_there(found.delivered))
        return looked.view(int(number))
