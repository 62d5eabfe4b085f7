"""Downloads of a result: JSON, CSV, GeoJSON, and the images, files and charts of its views."""

import asyncio
import csv
import io
import re
from typing import NoReturn, get_args
from urllib.parse import quote

from msgspec import Raw
from starlette.responses import Response

from langlauf.api.context import ApiContext
from langlauf.api.requests import choice_parameter
from langlauf.auth.caller import Caller
from langlauf.domain.job import JobRecord
from langlauf.domain.result import Snapshot, StoredResult
from langlauf.problems import VARY, not_found
from langlauf.server.asgi import LargeResponse
from langlauf.ui.language import AnalysisTexts, AnalysisWords
from langlauf.ui.page_request import PageRequest
from langlauf.ui.pages.snapshots import expired_problem, requested_snapshot, require_payload
from langlauf.ui.renderer import PRIVATE
from langlauf.ui.responses import download_type, file_name, image_info
from langlauf.ui.views.chart_renderer import ChartFailure, chart_renderer
from langlauf.ui.views.chart_spec import ChartRefused, ChartTheme, ChartWidth, chart_rows, safe_spec
from langlauf.ui.views.panels import MAX_VIEWS
from langlauf.ui.views.raw_json import NULL, first_byte, is_object, is_text, raw_text
from langlauf.ui.views.stored_views import (
    AnyRawView,
    RawChartView,
    RawFileView,
    RawImageView,
    RawMapView,
    RawTableView,
    ResultViews,
    result_views,
)
from langlauf.ui.views.table import column_names, row_fields

JSON, CSV, GEOJSON = "json", "csv", "geojson"
_DOWNLOAD_TYPES = {JSON: "application/json", CSV: "text/csv; charset=utf-8", GEOJSON: "application/geo+json"}
#: A spreadsheet takes a text that starts so for a formula.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")
#: Where a spreadsheet with another separator would begin a new cell.
_INNER_FORMULA = re.compile(r"([;\t\r\n]\s*)([=+@-])")
#: Spreadsheets read a file that starts so as UTF-8.
_BYTE_ORDER_MARK = "\N{ZERO WIDTH NO-BREAK SPACE}"


class Downloads:
    """`/results/{result_id}/download`."""

    def __init__(self, context: ApiContext) -> None:
        self._context = context

    async def send(self, request: PageRequest, caller: Caller) -> Response:
        """Send exactly the requested snapshot in the requested format."""
        wish = choice_parameter(request.http, "format", (JSON, CSV, GEOJSON)) or JSON
        reads = self._context.services.reads.of(caller)
        found = await requested_snapshot(reads, request, latest=False, payload=wish != JSON)
        name = f"{found.job.analysis}-{_short_name(found.job, found.delivered.snapshot)}.{wish}"
        headers = {"Content-Type": _DOWNLOAD_TYPES[wish], **attachment_headers(name)}
        if wish == JSON:
            return await self._as_stored(caller, found.delivered.snapshot, headers)
        body = await asyncio.to_thread(convert_result, require_payload(found.delivered), wish)
        if body is None:
            raise not_found()
        return Response(body, headers=headers)

    async def _as_stored(self, caller: Caller, snapshot: Snapshot, headers: dict[str, str]) -> Response:
        services = self._context.services
        source = await services.reads.of(caller).source(snapshot.result_id)
        if source is None:
            raise expired_problem()
        if source.whole is not None:
            return Response(source.whole, headers=headers)

        async def gone() -> NoReturn:
            raise expired_problem()

        return LargeResponse(
            source,
            services.response_memory,
            caller.org_id,
            headers=headers,
            media_type=_DOWNLOAD_TYPES[JSON],
            gone=gone,
        )


def download_formats(found: ResultViews) -> list[str]:
    """Return the formats that a snapshot can be downloaded in."""
    kinds = [JSON]
    if _exported_table(found) is not None:
        kinds.append(CSV)
    if _exported_map(found) is not None:
        kinds.append(GEOJSON)
    return kinds


def convert_result(stored: StoredResult, wish: str) -> bytes | None:
    """Return the table of a snapshot as CSV or its map as GeoJSON, or None where it has none."""
    found = result_views(stored)
    if wish == GEOJSON:
        shown = _exported_map(found)
        return None if shown is None else bytes(shown)
    table = _exported_table(found)
    return None if table is None else csv_of(*table).encode()


def attachment_headers(name: str) -> dict[str, str]:
    """Return the headers of a file that browsers save and never display."""
    safe = file_name(name)
    plain = safe.encode("ascii", "replace").decode().replace("?", "_")
    return {
        "Content-Disposition": f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(safe, safe='')}",
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": PRIVATE,
        "Vary": VARY,
    }


def csv_of(rows: list[Raw], view: RawTableView) -> str:
    """Return all rows as CSV. Formulas are escaped; numbers keep their digits."""
    named = [row_fields(row, view.columns) for row in rows]
    names = [column.name for column in view.columns] or column_names(named)
    titles = {column.name: column.title for column in view.columns}
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow([escape_formula(titles.get(name) or name) for name in names])
    writer.writerows([[_csv_cell(fields.get(name)) for name in names] for fields in named])
    return _BYTE_ORDER_MARK + out.getvalue()


def escape_formula(text: str) -> str:
    """Escape a text that a spreadsheet would take for a formula."""
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else _INNER_FORMULA.sub(r"\1'\2", text)


def _csv_cell(value: Raw | None) -> str:
    if value is None or first_byte(value) == b"n":
        return ""
    return escape_formula(raw_text(value)) if is_text(value) else raw_text(value)


def _exported_table(found: ResultViews) -> tuple[list[Raw], RawTableView] | None:
    """Return the first table that has rows, else the data of the first chart."""
    tables = [view for view in found.views if isinstance(view, RawTableView)]
    for table in tables:
        if rows := found.rows(table):
            return rows, table
    for chart in (view for view in found.views if isinstance(view, RawChartView)):
        if parts := chart_rows(chart.spec):
            return parts[0], RawTableView()
    return None


def _exported_map(found: ResultViews) -> Raw | None:
    maps = [found.geojson(view) for view in found.views if isinstance(view, RawMapView)]
    return next((one for one in maps if one != NULL and is_object(one)), None)


def _short_name(job: JobRecord, snapshot: Snapshot) -> str:
    """Return a short name that distinguishes two files."""
    return f"{job.job_id[:8]}-v{snapshot.result_seq}"


#: A snapshot never changes. One day, because a new release may draw it differently.
_CACHE_ONE_DAY = "private, max-age=86400, immutable"
_SANDBOX_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": _CACHE_ONE_DAY,
    "Vary": VARY,
}
_VIEW_NUMBER = re.compile(r"[1-9][0-9]?", re.ASCII)


class ViewFiles:
    """`/results/{result_id}/views/{number}`: images and files, and charts with `.svg`."""

    def __init__(self, context: ApiContext, analyses: AnalysisTexts) -> None:
        self._context = context
        self._analyses = analyses

    async def chart(self, request: PageRequest, caller: Caller) -> Response:
        """Send a chart as SVG."""
        wish = choice_parameter(request.http, "theme", ("light", "dark"))
        theme: ChartTheme = "dark" if wish == "dark" else "light"
        size = choice_parameter(request.http, "size", get_args(ChartWidth))
        room: ChartWidth = "narrow" if size == "narrow" else "medium" if size == "medium" else "wide"
        view, words = await self._view(request, caller)
        if not isinstance(view, RawChartView):
            raise not_found()
        try:
            drawn = await chart_renderer().draw(words.chart(safe_spec(view.spec, room)), theme, request.language)
        except ChartRefused:
            raise not_found() from None
        if isinstance(drawn, ChartFailure):
            raise not_found()
        return Response(drawn.svg, headers=_SANDBOX_HEADERS, media_type="image/svg+xml")

    async def image_or_file(self, request: PageRequest, caller: Caller) -> Response:
        """Send an image to display; a file, or an unknown image, to save."""
        view, _ = await self._view(request, caller)
        if isinstance(view, RawFileView):
            return Response(view.data, headers=attachment_headers(view.name), media_type=download_type(view.media_type))
        if not isinstance(view, RawImageView):
            raise not_found()
        picture = image_info(view.data, view.media_type)
        if picture is None or "download" in request.query_params:
            kind = "bin" if picture is None else picture.media_type.removeprefix("image/")
            media_type = "application/octet-stream" if picture is None else picture.media_type
            return Response(
                view.data, headers=attachment_headers(f"{view.title or 'image'}.{kind}"), media_type=media_type
            )
        return Response(view.data, headers=_SANDBOX_HEADERS, media_type=picture.media_type)

    async def _view(self, request: PageRequest, caller: Caller) -> tuple[AnyRawView | None, AnalysisWords]:
        number = request.path_params["number"]
        if not _VIEW_NUMBER.fullmatch(number) or int(number) > MAX_VIEWS:
            raise not_found()
        found = await requested_snapshot(self._context.services.reads.of(caller), request, latest=False)
        looked = await asyncio.to_thread(result_views, require_payload(found.delivered))
        return looked.view(int(number)), self._analyses.words(found.job.analysis, request.language)
