"""Two snapshots of one job, compared."""

import asyncio

from starlette.responses import Response

from langlauf.api.context import Context
from langlauf.auth.caller import Caller
from langlauf.domain.result import StoredResult
from langlauf.ui.rendering import Rendering
from langlauf.ui.results.comparing import MOST_LISTED, PathChanges, RowChanges, changed_paths, changed_rows
from langlauf.ui.results.finding import number_asked, snapshot_of, still_there, version_of
from langlauf.ui.results.versions import neighbours
from langlauf.ui.showing.views import Seen, ShownTable, seen
from langlauf.ui.visit import Visit


class ComparisonPage:
    """`/results/{result_id}/diff?from=&to=`."""

    def __init__(self, context: Context, rendering: Rendering) -> None:
        self._context = context
        self._rendering = rendering

    async def show(self, visit: Visit, caller: Caller) -> Response:
        """What became of one snapshot until another; by default of the one before the newest."""
        reads = self._context.services.reads.of(caller)
        newest = await snapshot_of(reads, visit, latest=True, payload=False)
        until = number_asked(visit, "to", newest.delivered.snapshot.result_seq)
        since = number_asked(visit, "from", max(1, until - 1))
        before = still_there((await version_of(reads, visit, since)).delivered)
        after = still_there((await version_of(reads, visit, until)).delivered)
        rows, paths = await asyncio.to_thread(_compared, before, after)
        return self._rendering.page(
            visit,
            "results/diff.html",
            job=newest.job,
            result_id=newest.requested.result_id,
            before=before.snapshot,
            after=after.snapshot,
            around=neighbours(await reads.results(newest.job.job_id), after.snapshot),
            rows=rows,
            paths=paths,
            most=MOST_LISTED,
        )


def _compared(before: StoredResult, after: StoredResult) -> tuple[RowChanges | None, PathChanges]:
    old, new = seen(before), seen(after)
    table, earlier = _table(new), _table(old)
    if table is None or earlier is None:
        return None, changed_paths(old.payload, new.payload, without=None)
    rows = changed_rows(old.rows(earlier), new.rows(table), table.columns)
    without = table.at if rows is not None and table.at == earlier.at else None
    return rows, changed_paths(old.payload, new.payload, without=without)


def _table(found: Seen) -> ShownTable | None:
    return next((view for view in found.views if isinstance(view, ShownTable)), None)
