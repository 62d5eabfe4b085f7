"""Takes secrets out of texts before they are stored."""

import re
from collections.abc import Mapping
from typing import Any

from langlauf.domain.text import first_flaw

MASK = "[redacted]"
PATH_MASK = "[path]"
_LONGEST_MESSAGE = 2_000
_DEEPEST_DETAILS = 4
_MOST_DETAILS = 50
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
    text = text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")
    text = redacted(text[: 4 * longest])  # masking takes time; what is cut off anyway need not be masked
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


def clean_details(value: Any, depth: int = 0) -> Any:
    """Details of an error, whatever they are, as a small JSON value without secrets."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float) and first_flaw(value) is None:
        return value
    if depth < _DEEPEST_DETAILS and isinstance(value, Mapping):
        pairs = list(value.items())[:_MOST_DETAILS]
        return {clean_message(_shown_name(name)): _clean_named(_shown_name(name), item, depth) for name, item in pairs}
    if depth < _DEEPEST_DETAILS and isinstance(value, list | tuple):
        return [clean_details(item, depth + 1) for item in value[:_MOST_DETAILS]]
    return clean_message(value if isinstance(value, str) else _shown(value))


def _shown(value: Any) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - a value that cannot be shown still has a type
        return type(value).__name__


def _shown_name(name: Any) -> str:
    return name if isinstance(name, str) else _shown(name)


def _clean_named(name: str, value: Any, depth: int) -> Any:
    return MASK if secret_name(name) else clean_details(value, depth + 1)
