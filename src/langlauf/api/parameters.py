"""Query parameters, headers and cursors of a request. What cannot be read becomes a 400 that names it."""

import base64
import binascii
import hashlib
import re
from typing import NoReturn

from starlette.requests import Request

from langlauf.domain.delivery import DeliveryFilter
from langlauf.domain.instant import Instant
from langlauf.domain.read_models import JobFilter
from langlauf.problems import bad_request
from langlauf.settings_values import LONGEST_DURATION, parse_duration

#: No valid number has this many digits.
_ABSURD = 13


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
