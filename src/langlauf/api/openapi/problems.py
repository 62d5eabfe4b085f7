"""Errors in the document: one schema for all, one per code, and the responses that share them."""

from collections.abc import Iterable

from langlauf.api.openapi.parameters import GUARDED, headers
from langlauf.api.openapi.schema import PROBLEM_JSON, Document, ref
from langlauf.api.operations import METHOD_NOT_ALLOWED, OPERATIONS
from langlauf.api.record_schemas import ProblemOut
from langlauf.problems import JOB_TITLES, TITLES

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
