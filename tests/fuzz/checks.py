"""Our own promise about errors, beside the checks that schemathesis brings along."""

import json
from typing import Any

import schemathesis
from schemathesis import Case, CheckContext
from schemathesis.core.failures import Failure
from schemathesis.core.transport import Response

#: The checks of schemathesis that hold here; the others presuppose that resources can be deleted.
BUILT_IN = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "positive_data_acceptance",
    "missing_required_header",
    "unsupported_method",
    "allow_header_conformance",
    "ignored_auth",
)
OUR_OWN = "every_error_is_a_problem"
_LEAKS = ("Traceback", ".py", "sqlite", "apsw", "/src/", "SELECT ")


@schemathesis.check  # type: ignore[untyped-decorator]  # its types are not read, see pyproject.toml
def every_error_is_a_problem(ctx: CheckContext, response: Response, case: Case[Any]) -> bool | None:
    """4xx and 5xx are problem+json with `ok`, `error`, `message` and the id of the request, and leak nothing."""
    if "x-request-id" not in response.headers:
        raise Failure(operation=case.operation.label, title="No X-Request-Id", message=str(response.status_code))
    if response.status_code < 400 or response.request.method == "HEAD":
        return None
    flaw = _flaw(response)
    if flaw is not None:
        raise Failure(operation=case.operation.label, title="An error that is no problem", message=flaw)
    return None


def _flaw(response: Response) -> str | None:
    kind = response.headers.get("content-type", [""])[0]
    if kind != "application/problem+json":
        return f"{response.status_code} is {kind or 'without a type'}"
    text = response.content.decode()
    body: dict[str, Any] = json.loads(text)
    if body.get("ok") is not False or body.get("status") != response.status_code:
        return f"{response.status_code} says {body.get('ok')}, {body.get('status')}"
    if not (body.get("error") and body.get("message")):
        return f"{response.status_code} has no code or no message"
    if body.get("request_id") != response.headers["x-request-id"][0]:
        return f"{response.status_code} has another id than its header"
    if response.status_code == 504 and "job_id" not in body:
        return "504 that is not a job's"
    return next((f"{response.status_code} tells {leak!r}" for leak in _LEAKS if leak in text), None)
