"""Reading a submission: the body of `POST /analyze`, its Idempotency-Key and its Prefer header."""

import math
import re
from collections.abc import Iterator
from typing import Any

import msgspec
from starlette.requests import Request

from langlauf.analysis.schema import RESERVED, read_input
from langlauf.api.request_schemas import AsyncMode, LaterStart, Options
from langlauf.domain.instant import from_datetime
from langlauf.problems import bad_request
from langlauf.service.notifications import NotifyOptions
from langlauf.service.submit import SubmitRequest
from langlauf.settings_values import parse_duration

_KEY = re.compile(r"[\x21-\x7e]{1,255}")
#: A string of structured fields (RFC 9651); only quotes and backslashes are escaped.
_QUOTED = re.compile(r'"((?:[^"\\]|\\["\\])*)"')


def read_submit_request(
    body: dict[str, Any], idempotency_key: str | None, *, checked: bool = False
) -> tuple[SubmitRequest, AsyncMode]:
    """Return the submission and its mode of response; `checked` means that all values of the body are storable."""
    given = body.get("options")
    mode = read_input(Options, {} if given is None else given, "options.").async_mode
    options = mode.notify
    notify = (
        None
        if options is None
        else NotifyOptions(webhook=options.webhook, email=options.email, language=options.language)
    )
    request = SubmitRequest(
        analysis=_analysis(body),
        input=_input(body),
        checked=checked,
        timeout_seconds=_seconds(body.get("timeout_seconds"), "timeout_seconds"),
        max_retries=mode.max_retries,
        priority_class=mode.priority_class,
        allow_duplicate=mode.allow_duplicate,
        reuse=mode.reuse,
        based_on=mode.based_on,
        idempotency_key=idempotency_key,
        label=mode.label,
        notify=notify,
    )
    return with_start(request, mode, "options.async_mode."), mode


def with_start(request: SubmitRequest, start: LaterStart, prefix: str) -> SubmitRequest:
    """Return a submission with the times of its start, which a body has below the prefix."""
    return msgspec.structs.replace(
        request,
        run_at=None if start.run_at is None else from_datetime(start.run_at),
        delay_seconds=_seconds(start.delay_seconds, f"{prefix}delay_seconds"),
        start_by=None if start.start_by is None else from_datetime(start.start_by),
    )


def _analysis(body: dict[str, Any]) -> str | None:
    name = body.get("analysis")
    if name is not None and not isinstance(name, str):
        raise bad_request("analysis must be a text.", "analysis")
    return name


def _input(body: dict[str, Any]) -> dict[str, Any]:
    flat = {name: value for name, value in body.items() if name not in RESERVED}
    if "input" not in body:
        return flat
    if flat:
        name = next(iter(flat))
        raise bad_request(f"{name!r} is given beside input: put all parameters into input, or none.", name)
    if not isinstance(body["input"], dict):
        raise bad_request("input must be an object.", "input")
    return dict(body["input"])


def _seconds(value: Any, field: str) -> float | None:
    """Return a duration in seconds; the use case has its maximum."""
    if value is None:
        return None
    try:
        seconds = parse_duration(value, longest=math.inf) if isinstance(value, str) else float(value)
    except (TypeError, ValueError):
        seconds = 0.0
    if isinstance(value, bool) or not seconds > 0:
        raise bad_request(f"{field} must be a number over 0 or a text like 30m.", field)
    return seconds


def idempotency_key(request: Request) -> str | None:
    """Return the Idempotency-Key; a bare and a quoted key are the same."""
    values = request.headers.getlist("idempotency-key")
    if not values:
        return None
    key = values[0].strip()
    if key.startswith('"'):
        quoted = _QUOTED.fullmatch(key)
        key = re.sub(r"\\(.)", r"\1", quoted[1]) if quoted else ""
    if len(values) > 1 or not _KEY.fullmatch(key):
        raise bad_request(
            "Idempotency-Key must be given once, with 1 to 255 visible ASCII characters.", "Idempotency-Key"
        )
    return key


LONGEST_WAIT = 30
#: A number with more digits exceeds every limit, and is not parsed.
_DIGITS = 9
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105 - the word of the grammar
_QUOTED_VALUE = r'"(?:[^"\\]|\\.)*"'
_PIECE = re.compile(r'"(?:[^"\\]|\\.)*"?|[^",]+|,', re.DOTALL)
#: One member of the list: a name, an optional value, and parameters, which are ignored.
_MEMBER = re.compile(rf"\s*({_TOKEN})\s*(?:=\s*({_TOKEN}|{_QUOTED_VALUE})?)?\s*(?:;.*)?", re.DOTALL)


class PreferHeader(msgspec.Struct, frozen=True):
    """The preferences of the client (RFC 7240); unknown ones are ignored. `wait` alone has no effect."""

    respond_async: bool = False
    wait: int | None = None

    @property
    def wait_seconds(self) -> int:
        """Return how long to wait for the end before a 202."""
        return min(self.wait, LONGEST_WAIT) if self.respond_async and self.wait is not None else 0

    @property
    def applied(self) -> str | None:
        """Return the value of Preference-Applied; None where no preference was used."""
        if not self.respond_async:
            return None
        return "respond-async" if self.wait is None else f"respond-async, wait={self.wait_seconds}"


def read_prefer_header(headers: list[str]) -> PreferHeader:
    """Parse several headers as one list; of a repeated preference the first counts, and an empty value is none."""
    found: dict[str, str] = {}
    for name, value in _members(", ".join(headers)):
        found.setdefault(name.lower(), value)
    return PreferHeader(respond_async=found.get("respond-async") == "", wait=_wait_seconds(found.get("wait", "")))


def _members(text: str) -> Iterator[tuple[str, str]]:
    """Yield names and values; a comma inside quotes does not separate, and malformed members are skipped."""
    for member in _split(text):
        if match := _MEMBER.fullmatch(member):
            yield match[1], _unquoted(match[2] or "")


def _split(text: str) -> Iterator[str]:
    member = ""
    for piece in _PIECE.findall(text):
        if piece == ",":
            yield member
            member = ""
        else:
            member += piece
    yield member


def _unquoted(value: str) -> str:
    return re.sub(r"\\(.)", r"\1", value[1:-1]) if value.startswith('"') else value


def _wait_seconds(text: str) -> int | None:
    if not (text.isascii() and text.isdigit()):
        return None
    return int(text) if len(text) <= _DIGITS else LONGEST_WAIT
