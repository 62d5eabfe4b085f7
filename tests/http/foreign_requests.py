"""Every request a stranger can make with an id, taken from the document: a new route is covered by itself."""

from collections.abc import Iterator
from typing import Any

import httpx2
import msgspec

from langlauf.clock import new_id
from tests.support.live import Live

Document = dict[str, Any]
#: Values that each query parameter is tried with, good and bad; one that is not here is tried with these of its schema.
_ODD = ("", "x", "-1", "0", "1", "999999999999")


class OwnedIds(msgspec.Struct, frozen=True, kw_only=True):
    """What an org has and a stranger may have heard of."""

    org: str
    job_id: str
    result_id: str
    etag: str
    cursor: str
    key: str
    text: str
    #: ids of further kinds, by the name of their path parameter
    others: dict[str, str] = {}

    def secrets(self) -> set[str]:
        """What may not show in any answer to a stranger."""
        return {self.org, self.job_id, self.result_id, self.text, *self.others.values()}

    def fill(self, name: str) -> str:
        """The value of a path parameter; a new kind of id must be made known here."""
        known = {"job_id": self.job_id, "result_id": self.result_id, **self.others}
        assert name in known, f"the document has a path parameter {name} that this test cannot fill"
        return known[name]


class ForeignRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request, with the ids still to be filled in."""

    method: str
    path: str
    names: tuple[str, ...]
    query: dict[str, str] = {}
    headers: dict[str, str] = {}
    body: Any = None

    def send(self, server: Live, values: dict[str, str], headers: dict[str, str]) -> httpx2.Response:
        """Sends it with the same id of the request always, so that answers can be compared to the byte."""
        every = {**self.headers, **headers, "X-Request-Id": "the-same"}
        path = self.path.format(**values)
        return server.http.request(self.method, path, params=self.query or None, headers=every, json=self.body)


def foreign_requests(document: Document, owned: OwnedIds) -> Iterator[ForeignRequest]:
    """Each operation that takes an id: every method, every parameter in good and bad, every header that selects."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            names = tuple(one["name"] for one in operation["parameters"] if one["in"] == "path")
            if names:
                yield from _variants(path, method, operation, names, owned)


def _variants(
    path: str, method: str, operation: Document, names: tuple[str, ...], owned: OwnedIds
) -> Iterator[ForeignRequest]:
    body: Document | None = {} if "requestBody" in operation else None
    for verb in ("GET", "HEAD") if method == "get" else (method.upper(),):
        plain = ForeignRequest(method=verb, path=path, names=names, body=body)
        yield plain
        for query in _queries(operation, owned):
            yield msgspec.structs.replace(plain, query=query)
        for headers in _headers(owned):
            yield msgspec.structs.replace(plain, headers=headers)
    for verb in {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} - {method.upper()}:
        yield ForeignRequest(method=verb, path=path, names=names)
    if body is not None:
        yield ForeignRequest(method=method.upper(), path=path, names=names, body={"reason": "mine", "resume": False})
        yield ForeignRequest(method=method.upper(), path=path, names=names, body={"no_such_field": 1})


def _queries(operation: Document, owned: OwnedIds) -> Iterator[dict[str, str]]:
    for parameter in operation["parameters"]:
        if parameter["in"] == "query":
            known = [str(value) for value in parameter["schema"].get("enum", ())]
            for value in dict.fromkeys((*known, *_ODD, owned.cursor, owned.text)):
                yield {parameter["name"]: value}
    yield {"no_such_parameter": "1"}


def _headers(owned: OwnedIds) -> Iterator[dict[str, str]]:
    for value in (owned.etag, "*", 'W/"0"', f"{owned.etag}, *"):
        yield {"If-None-Match": value}
    yield {"Accept": "text/event-stream"}
    yield {"Accept": "text/event-stream", "Last-Event-ID": "1"}
    yield {"Accept": "text/html"}
    yield {"Idempotency-Key": owned.key}
    yield {"Prefer": "respond-async, wait=1"}
    yield {"Origin": "https://ui.example"}


def unknown_ids(ask: ForeignRequest) -> dict[str, str]:
    """Ids that nobody ever had."""
    return {name: new_id() for name in ask.names}


def seen(response: httpx2.Response) -> tuple[int, list[tuple[str, str]], bytes]:
    """Everything that a caller can see of an answer, the time of day aside."""
    headers = [(name.lower(), value) for name, value in response.headers.multi_items() if name.lower() != "date"]
    return response.status_code, headers, response.content
