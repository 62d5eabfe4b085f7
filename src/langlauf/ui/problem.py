"""What each error code means and what to do next: the pages that the `type` of a problem leads to."""

from starlette.responses import Response

from langlauf.api.openapi.problems import statuses_of
from langlauf.problems import JOB_TITLES, TITLES, not_found
from langlauf.ui.rendering import PUBLIC, Rendering
from langlauf.ui.visit import Visit

#: Codes that a failed job has; some are also answers to a request.
JOB_CODES = (*JOB_TITLES, "timeout", "internal")
CODES = tuple(dict.fromkeys((*TITLES, *JOB_TITLES)))


def is_known(code: str | None) -> bool:
    """Whether there is a page for the code; an analysis may have codes of its own."""
    return code in CODES


class ProblemPages:
    """`/problems` and `/problems/{code}`."""

    def __init__(self, rendering: Rendering) -> None:
        self._rendering = rendering

    async def list(self, visit: Visit) -> Response:
        """All codes, with what they mean."""
        statuses = {code: sorted(statuses_of(code)) for code in CODES}
        return self._rendering.page(visit, "problems.html", cache=PUBLIC, codes=CODES, statuses=statuses)

    async def show(self, visit: Visit) -> Response:
        """One code."""
        code = visit.request.path_params["code"]
        if code not in CODES:
            raise not_found()
        return self._rendering.page(
            visit,
            "problem.html",
            cache=PUBLIC,
            code=code,
            statuses=sorted(statuses_of(code)),
            of_request=code in TITLES,
            of_job=code in JOB_CODES,
        )
