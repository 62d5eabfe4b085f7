"""Headers, bodies, query parameters and cursors of a request. What cannot be read becomes a 400 that names it."""

import asyncio
import base64
import binascii
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any, NoReturn
from urllib.parse import parse_qsl

import msgspec
from starlette.datastructures import Headers, QueryParams
from starlette.requests import ClientDisconnect, Request
from starlette.types import Scope

from langlauf.analysis.payload import run_in_thread
from langlauf.domain.delivery import DeliveryFilter
from langlauf.domain.instant import Instant
from langlauf.domain.read_models import JobFilter
from langlauf.domain.text import first_flaw, is_plain
from langlauf.problems import Problem, bad_request
from langlauf.server.asgi import transport_of
from langlauf.settings_values import LONGEST_DURATION, parse_duration

JSON = "application/json"
#: No valid length has this many digits.
_ABSURD = 13
#: Validating a body takes much longer than decoding it: a larger one is validated in a thread.
_LARGE = 65_536
#: Scope key of the operation that a request is for, once it is known.
OPERATION = "langlauf.operation"
#: Metric label of requests that are not for an operation: pages, their assets, unknown paths.
PAGES = "pages"
#: Scope key of the header fields, parsed once.
_FIELDS = "langlauf.fields"
_NO_PARAMETERS = QueryParams()


class HeaderFields(Headers):
    """The header fields of a request by name, without whitespace around values: not every server strips it."""

    def __init__(self, sent: Iterable[tuple[bytes, bytes]]) -> None:
        self._list = [(name, value.strip(b" \t")) for name, value in sent]
        self._values: dict[str, list[str]] = {}
        for name, value in self._list:
            self._values.setdefault(name.decode("latin-1"), []).append(value.decode("latin-1"))

    def __getitem__(self, key: str) -> str:
        return self._values[key.lower()][0]

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and key.lower() in self._values

    def get(self, key: str, default: Any = None) -> Any:
        """Return the first value of a field."""
        found = self._values.get(key.lower())
        return default if found is None else found[0]

    def getlist(self, key: str) -> list[str]:
        """Return all values of a field."""
        return self._values.get(key.lower(), [])


def read_headers(scope: Scope) -> HeaderFields:
    """Parse the header fields of a request once, for all later readers."""
    fields = scope[_FIELDS] = HeaderFields(scope["headers"])
    scope["headers"] = fields.raw
    return fields


def drop_headers(scope: Scope) -> None:
    """Drop the header fields of a long-lived request that needs them no more, to free memory."""
    scope.pop(_FIELDS, None)
    scope["headers"] = []


class ApiRequest(Request):
    """A request with headers parsed once, and without work for an empty query string."""

    @property
    def headers(self) -> Headers:
        """Return the header fields."""
        fields: HeaderFields = self.scope[_FIELDS]
        return fields

    @property
    def query_params(self) -> QueryParams:
        """Return the query parameters."""
        return super().query_params if self.scope["query_string"] else _NO_PARAMETERS


async def read_object(
    request: Request, *, largest: int, deepest: int, seconds: float, optional: bool = False
) -> dict[str, Any]:
    """Return the JSON object in the body; with `optional`, a missing body counts as an empty object."""
    body = await read_body(request, largest, seconds)
    if optional and not body:
        return {}
    value = await read_json(request, body, deepest)
    if not isinstance(value, dict):
        raise bad_request("The body must be a JSON object.")
    return value


async def read_json(request: Request, body: bytes, deepest: int) -> Any:
    """Return the JSON value in a body; its media type is checked."""
    _check_media_type(request)
    return await run_in_thread(parse_json, body, deepest) if len(body) > _LARGE else parse_json(body, deepest)


async def read_body(request: Request, largest: int, seconds: float) -> bytes:
    """Return the whole body within a deadline: other servers than ours have none of their own."""
    if transport_of(request.scope) is not None:
        return await _counted(request, largest)
    try:
        async with asyncio.timeout(seconds):
            return await _counted(request, largest)
    except TimeoutError:
        message = f"The body of the request took longer than {seconds:g} s to arrive; send it again."
        raise Problem(408, "request_timeout", message, headers=_last_answer(request)) from None


async def _counted(request: Request, largest: int) -> bytes:
    """Read and count the body: Content-Length is not trusted.

    A Content-Length above the limit is refused at once: with `Expect: 100-continue` the client then sends no body.
    """
    promised = request.headers.get("content-length", "")
    if promised.isascii() and promised.isdigit() and (len(promised) > _ABSURD or int(promised) > largest):
        raise _too_large(request, largest)
    parts, size, more = list[bytes](), 0, True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        more = message.get("more_body", False)
        if size > largest:
            raise _too_large(request, largest)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _too_large(request: Request, largest: int) -> Problem:
    message = f"The body has more than the {largest:,} bytes that this server accepts."
    return Problem(413, "payload_too_large", message, headers=_last_answer(request), limit_bytes=largest)


def _last_answer(request: Request) -> dict[str, str]:
    """Return the header that closes the connection, as the rest of the body is not read; HTTP/2 needs none."""
    return {"Connection": "close"} if request.scope["http_version"].startswith("1") else {}


def _check_media_type(request: Request) -> None:
    kind, *parameters = request.headers.get("content-type", "").lower().split(";")
    charsets = [one.partition("=")[2].strip(' "') for one in parameters if one.strip().startswith("charset=")]
    if kind.strip() != JSON or set(charsets) - {"utf-8"}:
        raise Problem(
            415,
            "unsupported_media_type",
            "Send the body as Content-Type: application/json, in UTF-8.",
            headers={"Accept": JSON},
        )
    if request.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise Problem(
            415,
            "unsupported_media_type",
            "Send the body without a Content-Encoding.",
            headers={"Accept-Encoding": "identity"},
        )


def parse_json(body: bytes, deepest: int) -> Any:
    """Parse storable JSON: no duplicate names, NUL, lone surrogates, NaN or integers beyond 64 bits."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise bad_request(f"The body is not valid JSON: {error}.") from None
    except RecursionError:
        raise bad_request(f"The body is nested deeper than {deepest} levels.") from None
    if not is_plain(body, deepest) and (flaw := first_flaw(value, deepest)):
        field, _, detail = flaw.rpartition(": ")
        raise bad_request(f"{field}: {detail}.", None if field == "the value" else field)
    # A duplicate name loses its colon when it is decoded, unless an escape adds another one.
    if b"\\u003" in body or msgspec.json.encode(value).count(b":") != body.count(b":"):
        json.loads(body, object_pairs_hook=_refuse_duplicates)
    return value


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise bad_request(f"The name {twice!r} is given twice in one object; send it once.", twice)
    return found


FORM = "application/x-www-form-urlencoded"
#: In bytes; forms with free text allow more.
SMALL_FORM = 16_384
_MOST_FIELDS = 200


async def read_form(request: Request, seconds: float, largest: int = SMALL_FORM) -> dict[str, str]:
    """Return the fields of a form by name."""
    body = await read_body(request, largest, seconds)
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM:
        raise Problem(415, "unsupported_media_type", f"Send the form as {FORM}.", headers={"Accept": FORM})
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict")
    except ValueError:
        raise bad_request(f"The form cannot be read: send it as {FORM}.") from None
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise bad_request("A field of the form is given more than once.")
    return fields


# -- query parameters and cursors --------------------------------------------------------------------------------------


def int_parameter(request: Request, name: str, *, default: int, lowest: int, highest: int) -> int:
    """Return a query parameter that is an integer within limits."""
    text = _single(request, name)
    return default if text is None else _whole_number(text, name, lowest, highest)


def int_header(request: Request, name: str, *, default: int, highest: int) -> int:
    """Return a header that is a non-negative integer; an empty one counts as missing."""
    text = text_header(request, name)
    return _whole_number(text, name, 0, highest) if text else default


def text_header(request: Request, name: str, longest: int = 256) -> str | None:
    """Return a header of limited length; an empty one counts as missing."""
    values = request.headers.getlist(name)
    if len(values) > 1:
        raise bad_request(f"{name} is given more than once.", name)
    if values and len(values[0]) > longest:
        raise bad_request(f"{name} must be a text of at most {longest} characters.", name)
    return values[0] if values and values[0] else None


def _whole_number(text: str, name: str, lowest: int, highest: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < _ABSURD and lowest <= int(text) <= highest):
        raise bad_request(f"{name} must be a whole number from {lowest} to {highest}.", name)
    return int(text)


def choice_parameter(request: Request, name: str, choices: tuple[str, ...]) -> str | None:
    """Return a query parameter that is one of a few words."""
    text = _single(request, name)
    if text is not None and text not in choices:
        raise bad_request(f"{name} must be one of {', '.join(choices)}.", name)
    return text


def text_parameter(request: Request, name: str, longest: int = 256) -> str | None:
    """Return a query parameter of limited length; an empty one counts as missing."""
    text = _single(request, name)
    if text is not None and (len(text) > longest or "\x00" in text):
        raise bad_request(f"{name} must be a text of at most {longest} characters.", name)
    return text or None


def read_duration(value: float | str | None, name: str, *, longest: float = LONGEST_DURATION) -> float | None:
    """Return a duration from a body: seconds, or a text like 30m."""
    if value is None:
        return None
    try:
        seconds = parse_duration(value) if isinstance(value, str) else float(value)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= longest:
        raise bad_request(f"{name} must be over 0 and at most {longest:g} seconds, or a text like 30m.", name)
    return seconds


def refuse_unknown_parameters(request: Request, *known: str) -> None:
    """Raise 400 for a query parameter that the path does not have: it is probably a typo."""
    if request.scope["query_string"]:
        for name in request.query_params:
            if name not in known:
                _unknown(name, known)


def _unknown(name: str, known: tuple[str, ...]) -> NoReturn:
    raise bad_request(f"There is no parameter {name!r} here; known are {', '.join(known) or 'none'}.", name)


def _single(request: Request, name: str) -> str | None:
    values = request.query_params.getlist(name) if request.scope["query_string"] else []
    if len(values) > 1:
        raise bad_request(f"{name} is given more than once.", name)
    return values[0] if values else None


_POSITION = re.compile(r"^([0-9a-f]{8}):([0-9]{1,18}):(\S+)$")


def write_cursor(after: tuple[Instant, str], org_id: str, which: JobFilter | DeliveryFilter) -> str:
    """Return the cursor of the position where a page ended, for that list only."""
    return write_position(after, _mark(org_id, which))


def read_cursor(text: str, org_id: str, which: JobFilter | DeliveryFilter) -> tuple[Instant, str]:
    """Return the position in a cursor; raise 400 for one of a list with other filters, which would skip records."""
    return read_position(text, _mark(org_id, which))


def write_position(after: tuple[Instant, str], mark: str) -> str:
    """Encode a position in the list with this mark."""
    instant, record_id = after
    position = f"{mark}:{instant}:{record_id}"
    return base64.urlsafe_b64encode(position.encode()).decode().rstrip("=")


def read_position(text: str, mark: str) -> tuple[Instant, str]:
    """Decode a position that was written for the list with this mark."""
    try:
        position = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        position = ""
    match = _POSITION.match(position)
    if match is None:
        raise bad_request(
            "cursor is not one of this list: send the next_cursor of its last page, or leave it out.", "cursor"
        )
    if match[1] != mark:
        raise bad_request("cursor belongs to a list with other filters; start again without it.", "cursor")
    return int(match[2]), match[3]


def _mark(org_id: str, which: JobFilter | DeliveryFilter) -> str:
    if isinstance(which, DeliveryFilter):
        of = (which.endpoint_id or "", which.job_id or "", which.status or "")
        return hashlib.sha256("\0".join(("deliveries", org_id, *of)).encode()).hexdigest()[:8]
    asked = [org_id, which.status or "", which.analysis or "", which.text or ""]
    if which.error_code:
        asked.append(which.error_code)
    return list_mark(*asked)


def list_mark(*asked: str) -> str:
    """Return the mark of a list: a hash of its org and filters."""
    filters = "\0".join(asked)
    return hashlib.sha256(filters.encode()).hexdigest()[:8]
