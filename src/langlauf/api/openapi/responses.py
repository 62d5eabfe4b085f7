"""Responses of an operation: bodies, headers, links, security requirements, and problems with one schema per code."""

from collections.abc import Iterable
from http import HTTPStatus

from langlauf.api.openapi.components import GUARDED, PROBLEM_JSON, Document, headers, json_content, ref
from langlauf.api.openapi.examples import answer_examples
from langlauf.api.operations import METHOD_NOT_ALLOWED, OPERATIONS, Operation
from langlauf.api.record_schemas import ProblemOut
from langlauf.api.response_schemas import AcceptedResponse
from langlauf.auth.credentials import QUERY_TOKEN
from langlauf.problems import JOB_TITLES, TITLES

# -- problems ----------------------------------------------------------------------------------------------------------

#: A job that failed during a synchronous request, with a code of the analysis.
OWN_CODE = "AnalysisProblem"
#: Members that a code always has.
_MEMBERS: dict[str, tuple[str, ...]] = {
    "forbidden": ("reason",),
    "duplicate_job": ("job",),
    "not_terminal": ("current_state",),
    "has_ended": ("current_state",),
    "canceled": ("job_id",),
    "expired": ("job_id",),
    "payload_too_large": ("limit_bytes",),
    "idempotency_mismatch": ("field", "errors"),
    **dict.fromkeys((*JOB_TITLES, OWN_CODE), ("job_id", "retryable", "retry_hint")),
}
#: Headers that a status always has, or sometimes with a question mark.
_HEADERS: dict[int, tuple[str, ...]] = {
    401: ("WWW-Authenticate",),
    405: ("Allow",),
    409: ("Location?", "Retry-After?", "Content-Location?", "Idempotent-Replayed?", "Preference-Applied?"),
    415: ("Accept?", "Accept-Encoding?"),
    422: ("Content-Location?", "Idempotent-Replayed?", "Preference-Applied?"),
    429: ("Retry-After", "RateLimit?", "RateLimit-Policy?"),
    500: ("Content-Location?", "Idempotent-Replayed?", "Preference-Applied?"),
    502: ("Content-Location?", "Idempotent-Replayed?", "Preference-Applied?"),
    503: ("Retry-After", "Content-Location?"),
    504: ("Content-Location?", "Idempotent-Replayed?", "Preference-Applied?"),
}


def schema_name(code: str) -> str:
    """Return the schema name of a code: `not_found` is `NotFoundProblem`."""
    return "".join(word.capitalize() for word in code.split("_")) + "Problem"


def problem_schemas() -> Document:
    """Return a schema per code, each narrowing the common one; codes of analyses share one."""
    made = {schema_name(code): _schema(code, title) for code, title in {**TITLES, **JOB_TITLES}.items()}
    own = {
        "allOf": [ref(ProblemOut)],
        "description": "The job that was waited for failed with a code of its analysis' own; `error` is that code.",
        "required": list(_MEMBERS[OWN_CODE]),
    }
    return {**made, OWN_CODE: own}


def _schema(code: str, title: str) -> Document:
    statuses = sorted(statuses_of(code))
    narrowed: Document = {
        "type": {"pattern": f"(^|/)problems/{code}$", "description": "Leads to the page that explains the code."},
        "title": {"const": title},
        "error": {"const": code},
    }
    if statuses:
        narrowed["status"] = {"enum": statuses}
    made: Document = {"allOf": [ref(ProblemOut)], "description": f"{title}.", "properties": narrowed}
    return made | ({"required": list(_MEMBERS[code])} if code in _MEMBERS else {})


def statuses_of(code: str) -> set[int]:
    """Return the HTTP statuses of a code."""
    tables = [METHOD_NOT_ALLOWED, *(operation.all_problems() for operation in OPERATIONS)]
    return {status for table in tables for status, codes in table.items() if code in codes}


def shared_name(status: int, codes: Iterable[str]) -> str:
    """Return the component name of responses with the same status and codes."""
    return "_".join((str(status), *codes))


def problem_answer(status: int, codes: tuple[str, ...], *, own: bool) -> Document:
    """Return a response with a problem: its codes with their meaning, its headers and schemas."""
    titles = {**TITLES, **JOB_TITLES}
    text = "; ".join(f"`{code}`: {titles[code]}" for code in codes)
    shapes = [ref(schema_name(code)) for code in codes] + ([ref(OWN_CODE)] if own else [])
    names = _HEADERS.get(status, ())
    return {
        "description": text + ("; or a code of the analysis' own" if own else ""),
        "headers": headers(
            *GUARDED,
            *(name for name in names if not name.endswith("?")),
            maybe=tuple(name.rstrip("?") for name in names if name.endswith("?")),
        ),
        "content": {PROBLEM_JSON: {"schema": shapes[0] if len(shapes) == 1 else {"anyOf": shapes}}},
    }


def shared_answers() -> Document:
    """Return every response with a problem, by its status and codes: most operations share most of them."""
    return {
        shared_name(status, codes): problem_answer(status, codes, own=False)
        for operation in OPERATIONS
        for status, codes in operation.all_problems().items()
    }


def method_not_allowed() -> Document:
    """Return the response to an unsupported method, which no operation has."""
    return {
        shared_name(status, codes): problem_answer(status, codes, own=False)
        for status, codes in METHOD_NOT_ALLOWED.items()
    }


# -- responses ---------------------------------------------------------------------------------------------------------

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
