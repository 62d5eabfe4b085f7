"""Answers: encoded once, with the headers that tenant data needs."""

import secrets
from collections.abc import Callable, Mapping

import msgspec
from starlette.responses import Response

from langlauf.http.problems import VARY

_encoder = msgspec.json.Encoder()


def around(shape: Callable[[msgspec.Raw], msgspec.Struct]) -> tuple[bytes, bytes]:
    """What stands before and after a stored payload in an answer: together they are what `answer` would send."""
    mark = b'"%b"' % secrets.token_hex(16).encode()
    before, _, after = _encoder.encode(shape(msgspec.Raw(mark))).partition(mark)
    return before, after


def tenant_headers(headers: Mapping[str, str] | None, cache: str) -> dict[str, str]:
    """The headers that every answer with tenant data has, and those."""
    return {"Cache-Control": cache, "Vary": VARY, **(headers or {})}


def answer(
    body: msgspec.Struct,
    status: int = 200,
    *,
    headers: Mapping[str, str] | None = None,
    cache: str = "no-store",
) -> Response:
    """A JSON answer that holds tenant data."""
    fields = tenant_headers(headers, cache)
    return Response(_encoder.encode(body), status, headers=fields, media_type="application/json")
