"""Texts of the pages in English and German, and the choice between them."""

import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any

import msgspec
from markupsafe import Markup

#: The first one is the default.
LANGUAGES = ("en", "de")
#: What separates thousands and decimals, by language and region; a language alone is the usual way to write it.
_SEPARATORS = {
    "en": (",", "."),
    "en-CH": ("\u2019", "."),
    "de": (".", ","),
    "de-CH": ("\u2019", "."),
    "de-LI": ("\u2019", "."),
    "de-AT": ("\u202f", ","),
}
_REGION = re.compile(r"[A-Z]{2}", re.ASCII)
#: Regions in which people may read one language and write numbers as in another.
_SHARED_REGIONS = ("CH", "LI", "AT")
_PLAIN_NUMBER = re.compile(r"(-?)([0-9]+)(?:\.([0-9]+))?", re.ASCII)
_WRITTEN_NUMBER = re.compile(r"-?[0-9]{1,3}(?:,[0-9]{3})*(?:\.[0-9]+)?%?|-?[0-9]+(?:\.[0-9]+)?%?", re.ASCII)
#: A whole number with fewer digits is not grouped: it may be a year.
MIN_GROUPED_DIGITS = 5


class Language(msgspec.Struct, frozen=True):
    """All texts in one language, and how its readers write numbers. Texts may contain markup; values are escaped."""

    code: str
    texts: Mapping[str, str]
    #: the region of the reader, where it is known; it only decides how numbers and dates are written
    region: str = ""

    @property
    def locale(self) -> str:
        """The language with its region, as browsers name it."""
        return f"{self.code}-{self.region}" if self.region else self.code

    @property
    def separators(self) -> tuple[str, str]:
        """What separates thousands, and decimals."""
        return _SEPARATORS.get(self.locale) or _SEPARATORS[self.code]

    def number(self, text: str, *, grouped: bool | None = None) -> str:
        """Write a JSON number with all its digits; thousands are grouped from five digits on, unless told.

        A number with an exponent stays as it is.
        """
        found = _PLAIN_NUMBER.fullmatch(text)
        if found is None:
            return text
        sign, whole, fraction = found.groups()
        thousands, decimal = self.separators
        if len(whole) >= MIN_GROUPED_DIGITS if grouped is None else grouped:
            whole = f"{int(whole):,}".replace(",", thousands)
        return f"{sign}{whole}{decimal + fraction if fraction else ''}"

    def rewrite_number(self, text: str) -> str:
        """Write a number that stands in an English sentence, such as `1,234.5` or `12%`; other texts stay."""
        if not _WRITTEN_NUMBER.fullmatch(text):
            return text
        percent = "\u00a0%" if text.endswith("%") and self.code == "de" else "%" if text.endswith("%") else ""
        return self.number(text.rstrip("%").replace(",", ""), grouped="," in text) + percent

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
    for code, _, weight in _wishes(accept_language):
        if code in LANGUAGES and weight > best_quality:
            best, best_quality = code, weight
    return best


def region_for(code: str, accept_language: str) -> str:
    """Return the region in which the reader writes numbers: that of this language, else one that shares languages."""
    wishes = sorted(_wishes(accept_language), key=lambda wish: -wish[2])
    own = [region for language, region, weight in wishes if language == code and weight > 0]
    if own:
        return own[0] or next((region for region in own if region), "")
    return next((region for _, region, weight in wishes if region in _SHARED_REGIONS and weight > 0), "")


def _wishes(accept_language: str) -> Iterator[tuple[str, str, float]]:
    """Yield language, region and quality of each entry."""
    for wish in accept_language.split(","):
        tag, _, parameter = wish.partition(";")
        language, *rest = tag.strip().split("-")
        region = next((one.upper() for one in rest if _REGION.fullmatch(one.upper())), "")
        yield language.lower(), region, quality(parameter)


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
