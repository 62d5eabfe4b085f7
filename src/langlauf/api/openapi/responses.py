"""Responses of an operation: bodies, headers, links and problems, and its security requirements."""

from http import HTTPStatus

from langlauf.api.openapi.examples import answer_examples
from langlauf.api.openapi.parameters import GUARDED, headers
from langlauf.api.openapi.problems import problem_answer, shared_name
from langlauf.api.openapi.schema import Document, json_content, ref
from langlauf.api.operations import Operation
from langlauf.api.response_schemas import AcceptedResponse
from langlauf.auth.credentials import QUERY_TOKEN

_TEXTS: dict[int, str] = {200: "Success.", 202: "Accepted; the job runs on."}
_RATE = ("RateLimit", "RateLimit-Policy")


def responses(operation: Operation, prefix: str) -> Document:
    """Return every response of an operation, by status."""
    made: Document = {}
    for status in operation.successes:
        made[str(status)] = _success(operation, status, prefix)
    for status, text in operation.empty.items():
        made[str(status)] = {"description": text, "headers": _headers(operation, status)}
    for status, codes in operation.all_problems().items():
        made[str(status)] = _problem(operation, status, codes)
    return dict(sorted(made.items()))


def _success(operation: Operation, status: int, prefix: str) -> Document:
    made = {
        "description": _TEXTS.get(status, f"{HTTPStatus(status).phrase}."),
        "headers": _headers(operation, status),
        "content": _content(operation, status, prefix),
    }
    if found := links(operation.name, status):
        made["links"] = found
    return made


def _content(operation: Operation, status: int, prefix: str) -> Document:
    kind = AcceptedResponse if operation.accepts and status == HTTPStatus.ACCEPTED else operation.answer
    if kind is None:
        schema = {"type": "object", "required": ["openapi", "info", "paths"]}
        return json_content(schema) if operation.name == "openapi" else {"text/plain": {"schema": {"type": "string"}}}
    content = json_content(ref(kind), answer_examples(kind, prefix))
    if operation.stream is not None:
        content["text/event-stream"] = {"schema": ref(operation.stream)}
    return content | {name: {"schema": {"type": "object"}} for name in operation.also}


def _headers(operation: Operation, status: int) -> Document:
    names = operation.headers.get(status, ())
    always = tuple(name for name in names if not name.endswith("?"))
    maybe = tuple(name.rstrip("?") for name in names if name.endswith("?"))
    if operation.scope is None:
        return headers("Cache-Control", *always, maybe=maybe)
    return headers(*GUARDED, *always, maybe=(*maybe, *_RATE))


def _problem(operation: Operation, status: int, codes: tuple[str, ...]) -> Document:
    if status in operation.job_problems:
        return problem_answer(status, codes, own=True)
    return {"$ref": f"#/components/responses/{shared_name(status, codes)}"}


_JOB = "$response.body#/job/job_id"
_FROM_JOB = {
    "status": ("jobStatus", "How it goes on."),
    "events": ("jobEvents", "What happened so far."),
    "results": ("jobResults", "Its snapshots, partial ones included."),
    "notifications": ("jobNotifications", "Its messages."),
    "cancel": ("cancelJob", "Stop it."),
    "retry": ("retryJob", "Submit it again once it has ended."),
}
_LINKS: dict[tuple[str, int], dict[str, tuple[str, str, str, str]]] = {
    ("analyze", 200): {
        "status": ("jobStatus", "job_id", "$response.body#/job_id", "The job of the synchronous request."),
        "result": ("result", "result_id", "$response.body#/result_id", "The permanent link of the result."),
    },
    ("jobStatus", 200): {
        "result": ("result", "result_id", "$response.body#/job/result_id", "The newest snapshot, once there is one."),
    },
    ("listJobs", 200): {
        "next": ("listJobs", "cursor", "$response.body#/next_cursor", "The next page, where there is one."),
    },
    ("jobEvents", 200): {
        "job": ("jobStatus", "job_id", "$request.path.job_id", "The job."),
    },
    ("result", 200): {
        "views": ("resultViews", "result_id", "$response.body#/result_id", "Its views."),
        "job": ("jobStatus", "job_id", "$response.body#/job_id", "The job that the snapshot is of."),
    },
}


def links(operation: str, status: int) -> Document:
    """Return the links of one response, by name."""
    if (operation, status) in (("analyze", 202), ("retryJob", 202)):
        return {name: _link(target, "job_id", _JOB, text) for name, (target, text) in _FROM_JOB.items()}
    return {name: _link(*parts) for name, parts in _LINKS.get((operation, status), {}).items()}


def _link(target: str, parameter: str, expression: str, text: str) -> Document:
    return {"operationId": target, "parameters": {parameter: expression}, "description": text}


SCHEMES: Document = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "A key of an org, or the operator's token, as `Authorization: Bearer …`.",
    },
    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "The same in a header of its own."},
    "token": {
        "type": "apiKey",
        "in": "query",
        "name": QUERY_TOKEN,
        "description": "A token for one job, in the URL. It is also accepted as `Authorization: Bearer …`.",
    },
}
_ASKED: list[Document] = [{"bearer": []}, {"key": []}]
_TOKEN: Document = {"token": []}


def requirements(*, is_open: bool) -> list[Document]:
    """Return the security requirements of the whole API; without authentication, an empty one suffices."""
    return [{}, *_ASKED] if is_open else _ASKED


def access(operation: Operation, *, is_open: bool, by_id: bool) -> Document:
    """Return the requirements of one operation: its scope, none, or alternatives such as a token."""
    if operation.scope is None:
        return {"security": []}
    needs: Document = {"x-scope": operation.scope}
    if "access_token" in operation.parameters:
        is_open = is_open or (by_id and operation.by_id is not None)
        needs["security"] = [*requirements(is_open=is_open), _TOKEN]
    return needs
