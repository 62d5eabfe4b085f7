"""What an operation answers: bodies, headers and links, and every problem it can end in."""

from http import HTTPStatus

from langlauf.api import schemas
from langlauf.api.openapi.examples import answer_examples
from langlauf.api.openapi.headers import GUARDED, headers
from langlauf.api.openapi.links import links
from langlauf.api.openapi.problems import problem_answer, shared_name
from langlauf.api.openapi.shapes import Document, json_content, ref
from langlauf.api.operations import Operation

_TEXTS: dict[int, str] = {200: "As wished.", 202: "Accepted; the job goes on."}
_RATE = ("RateLimit", "RateLimit-Policy")


def responses(operation: Operation, prefix: str) -> Document:
    """Every answer of an operation, by status."""
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
    kind = schemas.AcceptedAnswer if operation.accepts and status == HTTPStatus.ACCEPTED else operation.answer
    if kind is None:
        schema = {"type": "object", "required": ["openapi", "info", "paths"]}
        return json_content(schema) if operation.name == "openapi" else {"text/plain": {"schema": {"type": "string"}}}
    content = json_content(ref(kind), answer_examples(kind, prefix))
    if operation.stream is not None:
        content["text/event-stream"] = {"schema": ref(operation.stream)}
    return content


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
