"""Results to take away: the JSON as it is stored, a table as CSV, a map as GeoJSON."""

import asyncio
import csv
import io
import re
from typing import NoReturn
from urllib.parse import quote

from msgspec import Raw
from starlette.responses import Response

from langlauf.api.context import Context
from langlauf.api.parameters import choice
from langlauf.auth.caller import Caller
from langlauf.domain.job import JobRecord
from langlauf.domain.result import Snapshot, StoredResult
from langlauf.problems import VARY, not_found
from langlauf.server.large_response import LargeAnswer
from langlauf.ui.rendering import PRIVATE
from langlauf.ui.results.finding import snapshot_of, still_there, taken
from langlauf.ui.showing.charts import rows_of
from langlauf.ui.showing.pictures import file_name
from langlauf.ui.showing.table import fields_of, names_of
from langlauf.ui.showing.views import Seen, ShownChart, ShownMap, ShownTable, seen
from langlauf.ui.showing.written import NULL, first_byte, is_object, is_text, text_of
from langlauf.ui.visit import Visit

JSON, CSV, GEOJSON = "json", "csv", "geojson"
_MEDIA = {JSON: "application/json", CSV: "text/csv; charset=utf-8", GEOJSON: "application/geo+json"}
#: What a spreadsheet takes for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
#: Where a spreadsheet of another country would begin a new cell.
_INNER_FORMULA = re.compile(r"([;\t\r\n]\s*)([=+@-])")
#: Spreadsheets read a file as UTF-8 when it starts so.
_MARK = "\N{ZERO WIDTH NO-BREAK SPACE}"


class Downloads:
    """`/results/{result_id}/download`."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def send(self, visit: Visit, caller: Caller) -> Response:
        """Exactly the snapshot of the address, in the format that is asked for."""
        wish = choice(visit.request, "format", (JSON, CSV, GEOJSON)) or JSON
        reads = self._context.services.reads.of(caller)
        found = await snapshot_of(reads, visit, latest=False, payload=wish != JSON)
        name = f"{found.job.analysis}-{_short(found.job, found.delivered.snapshot)}.{wish}"
        headers = {"Content-Type": _MEDIA[wish], **attachment(name)}
        if wish == JSON:
            return await self._as_stored(caller, found.delivered.snapshot, headers)
        body = await asyncio.to_thread(made, still_there(found.delivered), wish)
        if body is None:
            raise not_found()
        return Response(body, headers=headers)

    async def _as_stored(self, caller: Caller, snapshot: Snapshot, headers: dict[str, str]) -> Response:
        services = self._context.services
        source = await services.reads.of(caller).source(snapshot.result_id)
        if source is None:
            raise taken()
        if source.whole is not None:
            return Response(source.whole, headers=headers)

        async def gone() -> NoReturn:
            raise taken()

        return LargeAnswer(source, services.room, caller.org_id, headers=headers, media_type=_MEDIA[JSON], gone=gone)


def formats_of(found: Seen) -> list[str]:
    """What a snapshot can be taken away as."""
    kinds = [JSON]
    if _table(found) is not None:
        kinds.append(CSV)
    if _map(found) is not None:
        kinds.append(GEOJSON)
    return kinds


def made(stored: StoredResult, wish: str) -> bytes | None:
    """The table of a snapshot as CSV, or its map; None where it has none."""
    found = seen(stored)
    if wish == GEOJSON:
        shown = _map(found)
        return None if shown is None else bytes(shown)
    table = _table(found)
    return None if table is None else csv_of(*table).encode()


def attachment(name: str) -> dict[str, str]:
    """Headers of something that is saved and never shown."""
    safe = file_name(name)
    plain = safe.encode("ascii", "replace").decode().replace("?", "_")
    return {
        "Content-Disposition": f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(safe, safe='')}",
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": PRIVATE,
        "Vary": VARY,
    }


def csv_of(rows: list[Raw], view: ShownTable) -> str:
    """All rows. A text that a spreadsheet would compute gets an apostrophe in front; numbers keep their digits."""
    named = [fields_of(row, view.columns) for row in rows]
    names = [column.name for column in view.columns] or names_of(named)
    titles = {column.name: column.title for column in view.columns}
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow([harmless(titles.get(name) or name) for name in names])
    writer.writerows([[_cell(fields.get(name)) for name in names] for fields in named])
    return _MARK + out.getvalue()


def harmless(text: str) -> str:
    """A text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else _INNER_FORMULA.sub(r"\1'\2", text)


def _cell(value: Raw | None) -> str:
    if value is None or first_byte(value) == b"n":
        return ""
    return harmless(text_of(value)) if is_text(value) else text_of(value)


def _table(found: Seen) -> tuple[list[Raw], ShownTable] | None:
    """The first table that has rows; else the data of the first chart."""
    tables = [view for view in found.views if isinstance(view, ShownTable)]
    for table in tables:
        if rows := found.rows(table):
            return rows, table
    for chart in (view for view in found.views if isinstance(view, ShownChart)):
        if parts := rows_of(chart.spec):
            return parts[0], ShownTable()
    return None


def _map(found: Seen) -> Raw | None:
    maps = [found.geojson(view) for view in found.views if isinstance(view, ShownMap)]
    return next((one for one in maps if one != NULL and is_object(one)), None)


def _short(job: JobRecord, snapshot: Snapshot) -> str:
    """Enough of an id to tell two files apart."""
    return f"{job.job_id[:8]}-v{snapshot.result_seq}"
