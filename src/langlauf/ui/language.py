"""Texts of the pages in English and German, and the choice between them."""

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import msgspec
from markupsafe import Markup

#: The first one is the default.
LANGUAGES = ("en", "de")


class Language(msgspec.Struct, frozen=True):
    """All texts in one language. They may contain markup; values are escaped."""

    code: str
    texts: Mapping[str, str]

    def text(self, key: str, /, **values: Any) -> Markup:
        """Return a text with its values inserted; raise KeyError for an unknown key."""
        text = Markup(self.texts[key])  # noqa: S704 - our own file, and format() escapes the values
        return text.format(**values) if values else text

    def plain(self, key: str, /, **values: Any) -> str:
        """Return a text as plain text, for e-mails, or where it is escaped later."""
        return self.texts[key].format(**values)


def load_language(code: str) -> Language:
    """Load the texts that ship with the package."""
    texts: dict[str, str] = {}
    for part in (files(__package__) / "translations" / code).iterdir():
        more = msgspec.json.decode(part.read_bytes(), type=dict[str, str])
        if twice := texts.keys() & more.keys():
            raise ValueError(f"{part.name} says again: {', '.join(sorted(twice))}")
        texts |= more
    return Language(code, texts)


def preferred(accept_language: str) -> str:
    """Return the language of ours that an Accept-Language header prefers."""
    best, best_quality = LANGUAGES[0], 0.0
    for wish in accept_language.split(","):
        tag, _, parameter = wish.partition(";")
        code = tag.strip().lower().partition("-")[0]
        weight = quality(parameter)
        if code in LANGUAGES and weight > best_quality:
            best, best_quality = code, weight
    return best


def quality(parameter: str) -> float:
    """Return the quality of an Accept entry: 1 where none is given, 0 where it is not valid."""
    name, _, value = parameter.strip().partition("=")
    if not name:
        return 1.0
    try:
        weight = float(value) if name.strip().lower() == "q" else 0.0
    except ValueError:
        return 0.0
    return weight if 0 <= weight <= 1 else 0.0
