"""Facts of a result: the values of its summary with labels and units, written for the reader."""

import re
from decimal import Decimal

import msgspec
from msgspec import Raw

from langlauf.domain.redact import MASK, is_secret_name, redact
from langlauf.domain.result import Fact
from langlauf.ui.analysis_texts import AnalysisWords
from langlauf.ui.formatting import MAX_JSON_BYTES, UNKNOWN, in_words
from langlauf.ui.views.raw_json import is_list, is_number, is_object, is_text, items, members, parse_raw, raw_text

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
