"""What each error code means and what to do next: the pages that the `type` of a problem leads to."""

from starlette.responses import Response

from langlauf.http.operations import OPERATIONS
from langlauf.http.problems import TITLES, not_found
from langlauf.ui.rendering import PUBLIC, Rendering, Visit

#: Codes that a failed job has; some are also answers to a request.
JOB_CODES = (
    "timeout",
    "timeout_max_retries",
    "network_error",
    "validation_error",
    "worker_lost",
    "result_too_large",
    "result_unstorable",
    "internal",
)
CODES = tuple(dict.fromkeys((*TITLES, *JOB_CODES)))
#: Statuses of answers that no single operation lists: any address can give them.
_ANYWHERE = {"forbidden": 403, "method_not_allowed": 405, "rate_limited": 429, "internal": 500}


def is_known(code: str | None) -> bool:
    """Whether there is a page for the code; an analysis may have codes of its own."""
    return code in CODES


def statuses_of(code: str) -> list[int]:
    """The HTTP statuses that come with a code."""
    found = {status for operation in OPERATIONS for status, codes in operation.problems.items() if code in codes}
    if code in _ANYWHERE:
        found.add(_ANYWHERE[code])
    return sorted(found)


class ProblemPages:
    """`/problems` and `/problems/{code}`."""

    def __init__(self, rendering: Rendering) -> None:
        self._rendering = rendering

    async def list(self, visit: Visit) -> Response:
        """All codes, with what they mean."""
        statuses = {code: statuses_of(code) for code in CODES}
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
            statuses=statuses_of(code),
            of_request=code in TITLES,
            of_job=code in JOB_CODES,
        )
