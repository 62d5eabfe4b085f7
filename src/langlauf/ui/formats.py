"""Formats values for people: times, durations, numbers, sizes, JSON, and the facts of a result."""

import math
import re
from datetime import datetime
from decimal import Decimal
from typing import Any

import msgspec
from markupsafe import Markup
from msgspec import Raw

from langlauf.domain.instant import Instant, to_datetime
from langlauf.domain.job import Phase
from langlauf.domain.redact import MASK, is_secret_name, redact
from langlauf.domain.result import Fact
from langlauf.domain.state import Status
from langlauf.ui.language import AnalysisWords, Language
from langlauf.ui.views.raw_json import is_list, is_number, is_object, is_text, items, members, parse_raw, raw_text

#: Larger JSON slows a browser down: the page shows the beginning and says so.
MAX_JSON_BYTES = 256 * 1024
MAX_JSON_LINES = 5_000
EXCERPT_LINES = 200
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
#: Keeps a number and its unit on one line.
_NO_BREAK_SPACE = "\u00a0"
#: Shown for an unknown value.
UNKNOWN = "\u2013"
_SMALL_NUMBER = 10
_CAMEL_CASE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
#: Phases that are shown instead of the status of a started job.
_PHASE_STATES = {
    Phase.CANCELING: "canceling",
    Phase.BACKOFF: "backoff",
    Phase.SILENT: "silent",
    Phase.WAITING: "waiting",
    Phase.SCHEDULED: "scheduled",
    Phase.PAUSED: "paused",
}


def machine_time(instant: Instant) -> str:
    """Return a time as RFC 3339, for scripts."""
    return to_datetime(instant).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def time_tag(instant: Instant, *, ago: bool = False) -> Markup:
    """Return a time element; with `ago`, a script shows the age beside it."""
    moment = local_time(instant)
    attribute = Markup(" data-ago") if ago else ""
    return Markup('<time datetime="{}"{}>{}</time>').format(
        machine_time(instant), attribute, f"{moment:%Y-%m-%d %H:%M:%S} {zone_name(moment)}"
    )


def local_time(instant: Instant) -> datetime:
    """Return a time in the zone of the server, in which mails and pages without a script show it."""
    return to_datetime(instant).astimezone()


def zone_name(moment: datetime) -> str:
    """Return the short name of a time's zone, such as CET; a zone without one is an offset to UTC."""
    name = moment.tzname() or "UTC"
    return name if name.isalpha() else f"UTC{moment:%z}"


def display_state(status: Status, phase: Phase) -> str:
    """Return the state that a page shows for a status and phase: it selects shape, colour and text."""
    if status is Status.QUEUED and phase is Phase.WAITING:
        return status.value
    return _PHASE_STATES.get(phase, status.value)


def format_estimate(seconds: float, language: Language) -> Markup:
    """Return an estimate, rounded up because it is uncertain."""
    if seconds < 10:  # noqa: PLR2004 - a rounded ten seconds
        return language.text("about.moment")
    if seconds < _MINUTE:
        return language.text("about.seconds", seconds=math.ceil(seconds / 10) * 10)
    if seconds < _HOUR:
        return language.text("about.minutes", minutes=math.ceil(seconds / _MINUTE))
    hours, rest = divmod(math.ceil(seconds / _MINUTE), _MINUTE)
    return language.text("about.hours", hours=hours, minutes=rest)


def format_duration(seconds: float, language: Language) -> str:
    """Return a measured duration."""
    if seconds < 0.1:  # noqa: PLR2004 - one decimal of a second would be zero
        return f"{round(seconds * 1000)} ms"
    if seconds < _MINUTE:
        return f"{language.number(f'{seconds:.1f}')} s"
    minutes, rest = divmod(round(seconds), _MINUTE)
    hours, minutes = divmod(minutes, _MINUTE)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def format_number(number: float, language: Language) -> str:
    """Return a number with separated thousands; small fractions have one decimal."""
    if number != round(number) and number < _SMALL_NUMBER:
        return language.number(f"{number:.1f}")
    return language.number(f"{round(number)}", grouped=True)


def format_seconds(seconds: float | None, language: Language) -> str:
    """Return a duration in at most two units, or a dash for None."""
    return UNKNOWN if seconds is None else _two_units(seconds, language).replace(" ", _NO_BREAK_SPACE)


def _two_units(seconds: float, language: Language) -> str:
    if seconds < _SMALL_NUMBER:
        return f"{language.number(f'{seconds:.1f}')} s"
    if seconds < _MINUTE:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), _MINUTE)
    if seconds < _HOUR:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, _MINUTE)
    if seconds < _DAY:
        return f"{hours} h {minutes} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h"


def format_share(part: int, whole: int, language: Language) -> str:
    """Return a share in percent, or a dash where the whole is zero."""
    if not whole:
        return UNKNOWN
    percent = 100 * part / whole
    digits = 1 if 0 < percent < _SMALL_NUMBER else 0
    return f"{language.number(f'{percent:.{digits}f}')}{_NO_BREAK_SPACE}%"


def format_stopwatch(seconds: float) -> str:
    """Return a running duration as a stopwatch shows it."""
    minutes, rest = divmod(int(max(0.0, seconds)), _MINUTE)
    hours, minutes = divmod(minutes, _MINUTE)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def format_size(count: int, language: Language) -> str:
    """Return a number of bytes with its unit."""
    if count < 1024:  # noqa: PLR2004
        return f"{count} B"
    kibibytes = count / 1024
    if kibibytes < 1024:  # noqa: PLR2004
        return f"{kibibytes:.0f} KiB"
    return f"{language.number(f'{kibibytes / 1024:.1f}')} MiB"


def in_words(name: str) -> str:
    """Return a name of a program as people write it: `people_within_25_km` is "People within 25 km"."""
    words = " ".join(_CAMEL_CASE.sub(" ", name).replace("_", " ").replace("-", " ").split()) or name
    return words[0].upper() + words[1:] if words else ""


class JsonExcerpt(msgspec.Struct, frozen=True):
    """The beginning of a JSON text. `text` is empty where even the beginning would be too large."""

    text: str
    size: str
    complete: bool


def json_excerpt(json_text: str, language: Language) -> JsonExcerpt:
    """Format stored JSON with line breaks, without decoding: numbers keep their digits."""
    length = len(json_text.encode())
    if length > MAX_JSON_BYTES:
        return JsonExcerpt("", format_size(length, language), complete=False)
    text = msgspec.json.format(json_text, indent=2)
    lines = text.split("\n")
    if len(lines) <= MAX_JSON_LINES:
        return JsonExcerpt(text, format_size(length, language), complete=True)
    return JsonExcerpt("\n".join(lines[:EXCERPT_LINES]), format_size(length, language), complete=False)


def event_payload(json_text: str) -> dict[str, Any]:
    """Return the payload of an event, or an empty dict where it is not an object."""
    value = msgspec.json.decode(json_text)
    return value if isinstance(value, dict) else {}


# -- facts of a result -------------------------------------------------------------------------------------------------

MAX_FACTS = 50
_MAX_VALUE = 500
_MAX_LISTED = 20
#: More decimals than people read; the whole number is beside it, and in the JSON.
_MAX_DECIMALS = 3
#: Names of numbers that count nothing: their thousands are not separated.
_NOT_COUNTED = re.compile(
    r"(?:^|_)(?:id|ids|year|code|key|number|no|nr|zip|postcode|phone|port|seed|version)$", re.IGNORECASE
)
_NOTHING = frozenset({b"0", b"0.0", b"-0.0", b"null", b"", b'""', b"[]", b"{}", b"false"})
_WORDS = {b"true": "form.choice.true", b"false": "form.choice.false"}


class ShownFact(msgspec.Struct, frozen=True, kw_only=True):
    """One fact. `exact` is the value with all its digits where these are not shown."""

    name: str
    value: str
    unit: str = ""
    exact: str = ""
    #: whether the value is zero or empty, which pages show less loudly
    quiet: bool = False


def is_counted(name: str) -> bool:
    """Whether a number of this name may have separated thousands; an id or a year may not."""
    return _NOT_COUNTED.search(name) is None


def result_facts(summary_json: str | None, payload: str | None, words: AnalysisWords) -> list[ShownFact]:
    """Return the facts of the stored summary, else of the payload's `summary`, else its plain values."""
    if summary_json is not None:
        return summary_facts(summary_json, words)
    if payload is None or len(payload) > MAX_JSON_BYTES or not payload.startswith("{"):
        return []
    values = members(parse_raw(payload))
    if "summary" in values and is_object(values["summary"]):
        return _facts(members(values["summary"]), words)
    return _facts({name: value for name, value in values.items() if not (is_object(value) or is_list(value))}, words)


def summary_facts(summary_json: str | None, words: AnalysisWords) -> list[ShownFact]:
    """Return a stored summary as facts; long values are shortened."""
    if summary_json is None:
        return []
    summary = parse_raw(summary_json)
    if not is_object(summary):
        return [_fact(Fact(key=""), summary, words)]
    return _facts(members(summary), words)


def _facts(values: dict[str, Raw], words: AnalysisWords) -> list[ShownFact]:
    """Return the facts: those that the analysis names first, in its order, then all others."""
    named = [fact for fact in words.wording.facts if fact.key in values]
    known = {fact.key for fact in named}
    others = [Fact(key=key) for key in values if key not in known]
    return [_fact(fact, values[fact.key], words) for fact in [*named, *others][:MAX_FACTS]]


def _fact(fact: Fact, value: Raw, words: AnalysisWords) -> ShownFact:
    name = words.text(fact.label or in_words(fact.key))
    quiet = bytes(value) in _NOTHING
    if is_secret_name(fact.key) and (is_text(value) or is_list(value) or is_object(value)):
        return ShownFact(name=name, value=MASK)
    if is_number(value):
        rounded, exact = _rounded(raw_text(value))
        shown = words.language.number(rounded, grouped=None if is_counted(fact.key) else False)
        unit = words.text(fact.unit)
        return ShownFact(name=name, value=shown, unit=unit, exact=exact, quiet=quiet)
    return ShownFact(name=name, value=_truncate(redact(_value_text(value, words))), quiet=quiet)


def _rounded(number: str) -> tuple[str, str]:
    """Return a number with few decimals, and the exact one where that is another."""
    whole, point, decimals = number.partition(".")
    if not point or len(decimals) <= _MAX_DECIMALS or not decimals.isdecimal() or not whole.strip("-0"):
        small = point and decimals.isdecimal() and len(decimals.lstrip("0")) > _MAX_DECIMALS
        if not small:
            return number, ""
        digits = len(decimals) - len(decimals.lstrip("0")) + _MAX_DECIMALS
        return f"{Decimal(number):.{digits}f}", number
    return f"{Decimal(number):.{_MAX_DECIMALS}f}", number


def _value_text(value: Raw, words: AnalysisWords) -> str:
    if bytes(value) == b"null":
        return UNKNOWN
    if bytes(value) in _WORDS:
        return words.language.plain(_WORDS[bytes(value)])
    if is_text(value):
        return words.text(raw_text(value))
    if is_list(value):
        listed = items(value)[:_MAX_LISTED]
        if listed and all(is_text(one) or is_number(one) for one in listed):
            return ", ".join(words.text(raw_text(one)) for one in listed)
    return raw_text(value)


def _truncate(text: str) -> str:
    return text if len(text) <= _MAX_VALUE else text[: _MAX_VALUE - 1] + "…"
