"""Answers: encoded once, with the headers that tenant data needs."""

from collections.abc import Mapping

import msgspec
from starlette.responses import Response

from langlauf.http.problems import VARY

_encoder = msgspec.json.Encoder()


def answer(
    body: msgspec.Struct,
    status: int = 200,
    *,
    headers: Mapping[str, str] | None = None,
    cache: str = "no-store",
) -> Response:
    """A JSON answer that holds tenant data."""
    fields = {"Cache-Control": cache, "Vary": VARY, **(headers or {})}
    return Response(_encoder.encode(body), status, headers=fields, media_type="application/json")
