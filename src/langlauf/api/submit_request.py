"""The body of `POST /analyze`: flat or under `input`, with everything that is not input taken out."""

import math
import re
from typing import Any

from starlette.requests import Request

from langlauf.analysis.schema import RESERVED
from langlauf.api.context import convert
from langlauf.api.schemas import AsyncMode, Options
from langlauf.problems import bad_request
from langlauf.service.notices import Notify
from langlauf.service.submit import Order
from langlauf.settings import duration

_KEY = re.compile(r"[\x21-\x7e]{1,255}")
#: A string of structured fields (RFC 9651); inside, only quotes and backslashes are escaped.
_QUOTED = re.compile(r'"((?:[^"\\]|\\["\\])*)"')


def read_order(body: dict[str, Any], idempotency_key: str | None, *, checked: bool = False) -> tuple[Order, AsyncMode]:
    """What is wanted, and how it is to be answered; `checked` says that all of the body can be kept."""
    given = body.get("options")
    mode = convert(Options, {} if given is None else given, "options.").async_mode
    wish = mode.notify
    notify = None if wish is None else Notify(webhook=wish.webhook, email=wish.email, language=wish.language)
    order = Order(
        analysis=_analysis(body),
        input=_input(body),
        checked=checked,
        timeout_seconds=_timeout(body.get("timeout_seconds")),
        max_retries=mode.max_retries,
        priority_class=mode.priority_class,
        allow_duplicate=mode.allow_duplicate,
        idempotency_key=idempotency_key,
        notify=notify,
    )
    return order, mode


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
        raise bad_request(f"{name!r} stands beside input; put all parameters in input, or none.", name)
    if not isinstance(body["input"], dict):
        raise bad_request("input must be an object.", "input")
    return dict(body["input"])


def _timeout(value: Any) -> float | None:
    """Seconds; it only lowers the analysis' own limit, so that nothing is too long."""
    if value is None:
        return None
    try:
        seconds = duration(value, longest=math.inf) if isinstance(value, str) else float(value)
    except (TypeError, ValueError):
        seconds = 0.0
    if isinstance(value, bool) or not seconds > 0:
        raise bad_request("timeout_seconds must be a number over 0 or a text like 30m.", "timeout_seconds")
    return seconds


def idempotency_key(request: Request) -> str | None:
    """The Idempotency-Key header; a bare and a quoted key are the same."""
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
