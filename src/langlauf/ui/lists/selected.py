"""What is to be done to chosen jobs: a page that asks first, and then does it."""

import asyncio
from collections.abc import Mapping, Sequence

import msgspec
from starlette.responses import Response

from langlauf.api.context import Context
from langlauf.auth.caller import Caller
from langlauf.clock import new_word
from langlauf.domain.job import JobRecord
from langlauf.domain.keys import ALPHABET
from langlauf.service.control import MOST_AT_ONCE, cancel_many, repeat_many
from langlauf.ui.formatting import face
from langlauf.ui.going import see_other
from langlauf.ui.lists.filters import filters_in, filters_of
from langlauf.ui.rendering import Rendering
from langlauf.ui.visit import Visit

CANCEL, AGAIN = "cancel", "again"
_NAME = "job-"
_WISH_LETTERS = 16
_SHOWN = 10


class Chosen(msgspec.Struct, frozen=True):
    """A job that something is to be done to."""

    job: JobRecord
    face: str


class SelectedPages:
    """`/selected`, and where its forms are sent to."""

    def __init__(self, context: Context, rendering: Rendering) -> None:
        self._context = context
        self._rendering = rendering

    async def ask(self, visit: Visit, caller: Caller) -> Response:
        """Asks whether it is really wished, and says for how many."""
        asked = visit.request.query_params
        chosen = list(dict.fromkeys(asked.getlist("job")))
        action = AGAIN if asked.get("do") == AGAIN else CANCEL
        jobs = await self._jobs(caller, chosen[:MOST_AT_ONCE])
        fitting = [one for one in jobs if one.job.terminal == (action == AGAIN)]
        filters = filters_of(asked)
        return self._rendering.page(
            visit,
            "lists/selected.html",
            action=action,
            chosen=len(chosen),
            fitting=fitting,
            shown=_SHOWN,
            left=len(chosen) - len(fitting),
            over=len(chosen) > MOST_AT_ONCE,
            most=MOST_AT_ONCE,
            back=filters.query(),
            back_to=visit.link("jobs", **filters.asked),
            wish=new_word(ALPHABET, _WISH_LETTERS),
        )

    async def cancel(self, visit: Visit, caller: Caller, fields: Mapping[str, str]) -> Response:
        """Stops the chosen jobs."""
        done = await cancel_many(self._context.services.control, caller, chosen_in(fields), fields.get("reason"))
        return back_to_list(visit, fields, canceled=str(done.done), left=str(done.left))

    async def again(self, visit: Visit, caller: Caller, fields: Mapping[str, str]) -> Response:
        """Runs the chosen jobs again."""
        done = await repeat_many(self._context.services.control, caller, chosen_in(fields), fields.get("wish", ""))
        return back_to_list(visit, fields, repeated=str(done.done), left=str(done.left))

    async def _jobs(self, caller: Caller, job_ids: Sequence[str]) -> list[Chosen]:
        reads = self._context.services.reads
        views = await asyncio.gather(*(reads.of(caller).job(job_id) for job_id in job_ids))
        return [Chosen(view.job, face(view.job.status, reads.phase(view))) for view in views if view is not None]


def chosen_in(fields: Mapping[str, str]) -> list[str]:
    """The jobs that a form names, each in a field of its own."""
    return [value for name, value in fields.items() if name.startswith(_NAME)]


def back_to_list(visit: Visit, fields: Mapping[str, str], **said: str) -> Response:
    """To the list as it was filtered, which says what was done."""
    kept = filters_in(fields.get("back", "")).asked
    return see_other(visit.link("jobs", **kept, **said))
