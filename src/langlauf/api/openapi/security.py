"""How a caller shows who it is, and what it must be allowed to do."""

from langlauf.api.openapi.shapes import Document
from langlauf.api.operations import Operation
from langlauf.auth.credentials import ADDRESS_TOKEN

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
        "name": ADDRESS_TOKEN,
        "description": "A token for one job, in the address. As `Authorization: Bearer …` it is good as well.",
    },
}
_ASKED: list[Document] = [{"bearer": []}, {"key": []}]
_TOKEN: Document = {"token": []}


def requirements(*, is_open: bool) -> list[Document]:
    """What the whole API asks for; where authentication is off, nothing is enough."""
    return [{}, *_ASKED] if is_open else _ASKED


def access(operation: Operation, *, is_open: bool, by_id: bool) -> Document:
    """What one operation asks for beyond that: a scope, or nothing at all; and where less is enough, that too."""
    if operation.scope is None:
        return {"security": []}
    needs: Document = {"x-scope": operation.scope}
    if "access_token" in operation.parameters:
        is_open = is_open or (by_id and operation.by_id is not None)
        needs["security"] = [*requirements(is_open=is_open), _TOKEN]
    return needs
