"""Takes secrets out of texts before they are stored."""

import re
import reprlib
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from langlauf.domain.text import first_flaw

MASK = "[redacted]"
PATH_MASK = "[path]"
_LONGEST_MESSAGE = 2_000
_DEEPEST_DETAILS = 4
_MOST_DETAILS = 50
#: Values in the details of one error, over all levels.
_MOST_VALUES = 200
_MOST_LETTERS = 10_000
_SHORTEST_TEXT = 20
_SECRET_NAME = re.compile(r"(?i)api[_-]?key|access[_-]?key|token|secret|passw|authorization|cookie")

_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}"), rf"\1 {MASK}"),
    (re.compile(r"(?i)\b(authorization['\"]?\s{0,8}[:=]\s{0,8}['\"]?)\w+\s+[^\s'\",;]+"), rf"\1{MASK}"),
    (re.compile(r"(?i)\b(\w{1,20}://[^\s:/@]{1,100}):[^\s/]{1,200}@"), rf"\1:{MASK}@"),
    (re.compile(r"\beyJ[\w-]{8,2000}\.[\w-]{8,4000}\.[\w-]{0,2000}"), MASK),
    (re.compile(r"\bAKIA[0-9A-Z]{16}\b"), MASK),
    (
        re.compile(
            r"(?i)(['\"]?\b[\w-]{0,40}(?:api[_-]?key|access[_-]?key|token|secret|password|passwd|authorization|cookie)"
            r"[\w-]{0,40}['\"]?\s{0,8}[:=]\s{0,8})(['\"]?)(?!\[redacted\])[^\s'\",;&}]+\2"
        ),
        rf"\1\2{MASK}\2",
    ),
    (re.compile(r"(?i)([?&](?:key|sig|signature|code)=)[^\s&#]+"), rf"\1{MASK}"),
    (re.compile(r"\b(?:whsec_|sk_)[A-Za-z0-9+/=_-]{8,}"), MASK),
    # The id of a key is no secret and may be read; what is longer is one.
    (re.compile(r"\bll[kst]_[A-Za-z0-9._-]{20,}"), MASK),
)


#: An absolute path of two parts or more, as exceptions of files have it; an address behind `://` is none.
_PATH = re.compile(r"(?<![\w:/.\]])/[\w.@+~-]+(?:/[\w.@+~-]+)+/?")
#: Without any of these there is nothing to mask; looking for them is quick, whatever the text.
_SIGNS = re.compile(
    r"(?i)bearer|basic|authorization|://|eyJ|AKIA|key|token|secret|passw|cookie|[?&](?:sig|code)|whsec_|sk_|ll[kst]_"
)


def redacted(text: str) -> str:
    """The text with everything that looks like a secret masked."""
    if _SIGNS.search(text) is None:
        return text
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text


def clean_text(text: str, longest: int) -> str:
    """A text fit to be stored and shown: no secrets, no characters a database refuses, not endless."""
    text = text[: 4 * longest]  # masking takes time; what is cut off anyway need not be masked
    text = text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")
    text = redacted(text)
    return text if len(text) <= longest else text[: longest - 1] + "…"


def secret_name(name: str) -> bool:
    """Whether something of this name is probably a secret."""
    return _SECRET_NAME.search(name) is not None


def without_paths(text: str) -> str:
    """The text without where things lie on the machine: that is for the log, not for whoever asked."""
    return _PATH.sub(PATH_MASK, text)


def clean_message(text: str) -> str:
    """An error text, fit to be stored."""
    return clean_text(text, _LONGEST_MESSAGE)


def words_of(error: BaseException, *, named: bool = True) -> str:
    """What an exception says, and with `named` what it is. Whatever it holds, that neither raises nor has no end."""
    name = type(error).__name__
    try:
        text = _said(error)[: 4 * _LONGEST_MESSAGE]
    except BaseException:  # noqa: BLE001 - an exception that cannot say what it is still has a name
        return name
    if not text:
        return name
    return f"{name}: {text}" if named else text


def _said(error: BaseException) -> str:
    """What it says; where that is how Python shows its arguments, not all of a large one is."""
    plain = type(error).__str__ is BaseException.__str__
    if plain and not all(type(argument) is str for argument in error.args):
        return _SHORT.repr(error.args[0] if len(error.args) == 1 else error.args)
    return str(error)


def clean_details(value: Any) -> Any:
    """Details of an error, whatever they are, as a small JSON value without secrets."""
    return _Details().clean(value, 0)


class _Details:
    """Counts what it took over: details may be wide on every level, or contain themselves."""

    def __init__(self) -> None:
        self._left = _MOST_VALUES
        self._letters = _MOST_LETTERS

    def clean(self, value: Any, depth: int) -> Any:
        self._left -= 1
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int | float) and first_flaw(value) is None:
            return value
        if depth < _DEEPEST_DETAILS and isinstance(value, Mapping):
            pairs = [(_shown_name(name), item) for name, item in self._some(value.items())]
            return {clean_message(name): self._clean_named(name, item, depth) for name, item in pairs}
        if depth < _DEEPEST_DETAILS and isinstance(value, list | tuple):
            return [self.clean(item, depth + 1) for item in self._some(value)]
        text = clean_text(value if isinstance(value, str) else shown(value), min(_LONGEST_MESSAGE, self._letters))
        self._letters = max(_SHORTEST_TEXT, self._letters - len(text))
        return text

    def _some(self, items: Iterable[Any]) -> list[Any]:
        return list(islice(items, max(0, min(_MOST_DETAILS, self._left))))

    def _clean_named(self, name: str, value: Any, depth: int) -> Any:
        return MASK if secret_name(name) else self.clean(value, depth + 1)


def _short() -> reprlib.Repr:
    """Shows containers and texts of any size in a bounded text."""
    short = reprlib.Repr()
    short.maxlevel = _DEEPEST_DETAILS
    short.maxlist = short.maxtuple = short.maxdict = short.maxset = short.maxfrozenset = short.maxdeque = _MOST_DETAILS
    short.maxarray = _MOST_DETAILS
    short.maxstring = short.maxother = short.maxlong = _LONGEST_MESSAGE
    return short


_SHORT = _short()


def shown(value: Any) -> str:
    """A value as Python shows it; of a large one a part."""
    try:
        return _SHORT.repr(value)
    except BaseException:  # noqa: BLE001 - a value that cannot be shown still has a type
        return type(value).__name__


def _shown_name(name: Any) -> str:
    return name if isinstance(name, str) else shown(name)
