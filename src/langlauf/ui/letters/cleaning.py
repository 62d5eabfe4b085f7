"""Texts of others on their way into a mail: no lines of their own, no characters that turn the order of others."""

import unicodedata

from langlauf.domain.redact import redacted

#: Controls, formats (which turn the direction of writing, or show nothing), halves of pairs, what has no meaning, and
#: other line ends.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def one_line(text: str, longest: int) -> str:
    """A text on one line, without secrets and without what cannot be seen, no longer than told."""
    text = redacted(text)[: 4 * longest]  # before lines are joined: a key of several lines is known by them
    seen = "".join(" " if unicodedata.category(char) in _UNSEEN else char for char in text)
    line = redacted(" ".join(seen.split()))
    return line if len(line) <= longest else line[: longest - 1].rstrip() + "…"


def few_lines(text: str, longest: int, most: int) -> list[str]:
    """The same for a text that has lines: the first ones that hold something."""
    lines = [one_line(line, longest) for line in redacted(text).splitlines()[: 4 * most]]
    return [line for line in lines if line][:most]
