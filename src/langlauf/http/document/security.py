"""How a caller shows who it is, and what it must be allowed to do."""

from langlauf.http.document.shapes import Document
from langlauf.http.operations import Operation

SCHEMES: Document = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "A key of an org, or the operator's token, as `Authorization: Bearer …`.",
    },
    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "The same in a header of its own."},
}
_ASKED: list[Document] = [{"bearer": []}, {"key": []}]


def requirements(*, is_open: bool) -> list[Document]:
    """What the whole API asks for; where authentication is off, nothing is enough."""
    return [{}, *_ASKED] if is_open else _ASKED


def access(operation: Operation) -> Document:
    """What one operation asks for beyond that: a scope, or nothing at all."""
    return {"security": []} if operation.scope is None else {"x-scope": operation.scope}
