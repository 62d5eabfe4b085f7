"""Takes secrets out of texts before they are stored."""

import re

MASK = "[redacted]"
_LONGEST_MESSAGE = 2_000

_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}"), rf"\1 {MASK}"),
    (re.compile(r"(?i)\b(\w+://[^\s:/@]+):[^\s/@]+@"), rf"\1:{MASK}@"),
    (
        re.compile(
            r"(?i)(['\"]?\b[\w-]*(?:api[_-]?key|access[_-]?key|token|secret|password|passwd|authorization|cookie)"
            r"[\w-]*['\"]?\s*[:=]\s*)(['\"]?)(?!\[redacted\])[^\s'\",;&}]+\2"
        ),
        rf"\1\2{MASK}\2",
    ),
    (re.compile(r"(?i)([?&](?:key|sig|signature|code)=)[^\s&#]+"), rf"\1{MASK}"),
    (re.compile(r"\b(?:whsec_|sk_|ll_)[A-Za-z0-9+/=_-]{8,}"), MASK),
)


def redacted(text: str) -> str:
    """The text with everything that looks like a secret masked."""
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text


def clean_message(text: str) -> str:
    """An error text fit to be stored and shown: no secrets, no characters a database refuses, not endless."""
    text = text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")
    text = redacted(text)
    return text if len(text) <= _LONGEST_MESSAGE else text[: _LONGEST_MESSAGE - 1] + "…"
