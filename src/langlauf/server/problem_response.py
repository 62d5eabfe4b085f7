"""The response for a problem.

Apart from the problems themselves: processes that only run jobs know those, and do not load the library for responses.
"""

import msgspec
from starlette.responses import Response

from langlauf.problems import VARY, Problem, title_of, type_of


def problem_response(problem: Problem, request_id: str, base: str) -> Response:
    """Return the response for a problem. It is never cached. `base` is the root URL of the application."""
    body = {
        "type": type_of(problem.code, base),
        "title": title_of(problem.code, problem.status),
        "status": problem.status,
        "detail": problem.message,
        "ok": False,
        "error": problem.code,
        "message": problem.message,
        "request_id": request_id,
        **problem.members,
    }
    headers = {"Cache-Control": "no-store", "Vary": VARY, **problem.headers}
    return Response(msgspec.json.encode(body), problem.status, headers=headers, media_type="application/problem+json")
