"""Texts of the pages, of analyses and of errors in English and German, and the choice between them."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec
from markupsafe import Markup

from langlauf.analysis.registry import Registry
from langlauf.analysis.texts import Wording, wording_of
from langlauf.domain.errors import ERROR_TYPE, SENTENCE
from langlauf.domain.job import TOO_LATE, JobRecord

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


# -- words of analyses -------------------------------------------------------------------------------------------------

_NO_WORDING = Wording()
#: What stands before the words of a line of Markdown: a list, a heading, a quotation.
_MARKDOWN_LINE = re.compile(r"(\s*(?:(?:[-*+>]|#{1,6}|[0-9]+\.)\s+)*)(.*)", re.DOTALL)
_MAX_SPEC_DEPTH = 40
#: Members of a chart that people read: titles, data, and the lists that name values of the data.
_DATA_MEMBERS = frozenset({"values", "datasets", "many"})
_READ_MEMBERS = frozenset({"title", "subtitle", "text", "values", "datasets", "domain", "sort"})
#: In longer data only whole texts are looked up.
_MOST_ROWS = 500


class AnalysisWords(msgspec.Struct, frozen=True):
    """The words of one analysis for one reader."""

    wording: Wording
    language: Language

    def text(self, text: str) -> str:
        """Return a text in the language of the reader; the text itself where it has no translation."""
        return self.wording.translate(text, self.language.code, self.language.rewrite_number)

    def cell(self, text: str) -> str:
        """Return the text of a table's cell: only whole texts are looked up, because there are many."""
        return self.wording.texts.get(self.language.code, {}).get(text, text)

    def markdown(self, text: str) -> str:
        """Return Markdown, line by line."""
        if self.language.code not in self.wording.texts:
            return text
        lines = (_MARKDOWN_LINE.fullmatch(line) for line in text.split("\n"))
        return "\n".join(f"{line[1]}{self.text(line[2])}" for line in lines if line)

    def chart(self, spec: dict[str, Any]) -> dict[str, Any]:
        """Return a Vega-Lite specification with its titles and the texts of its data in the language of the reader."""
        if self.language.code not in self.wording.texts:
            return spec
        translated: dict[str, Any] = self._part(spec, "", 0)
        return translated

    def _part(self, part: Any, name: str, depth: int) -> Any:
        if depth > _MAX_SPEC_DEPTH:
            return part
        if isinstance(part, dict):
            inside = name if name in _DATA_MEMBERS else ""
            return {key: self._part(one, inside or key, depth + 1) for key, one in part.items()}
        if isinstance(part, list):
            many = name == "values" and len(part) > _MOST_ROWS
            return [self._part(one, "many" if many else name, depth + 1) for one in part]
        if not isinstance(part, str):
            return part
        return self.cell(part) if name == "many" else self.text(part) if name in _READ_MEMBERS else part


class AnalysisTexts:
    """Looks up what authors of analyses wrote for people; one that is not registered has only its name."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def words(self, name: str, language: Language) -> AnalysisWords:
        """Return the words of an analysis for one reader."""
        analysis = self._registry.get(name)
        return AnalysisWords(_NO_WORDING if analysis is None else analysis.wording, language)

    def title(self, name: str, language: Language) -> str:
        """Return the title of an analysis, or its name."""
        analysis = self._registry.get(name)
        return name if analysis is None else self.words(name, language).text(analysis.title)


# -- words of errors ---------------------------------------------------------------------------------------------------
# What Langlauf wrote is known by the record: `error_meta` and events name its sentence, and the ends of crashes and the
# reasons of cancellations come from the closed lists below. What an analysis or a user wrote stays as it is, unless the
# analysis has its own translation.

#: Keys of phrases, each stored in English: how a process died, why the system canceled a job, why it is tried again.
PHRASES = ("crash.", "cancel_reason.", "retry_reason.")
#: What is stored for a phrase where that is not its English text.
_STORED = {"cancel_reason.too_late": TOO_LATE}


def error_meta(job: JobRecord) -> dict[str, Any]:
    """Return the details of a job's error, empty where there are none."""
    return {} if job.error_meta is None else msgspec.json.decode(job.error_meta, type=dict[str, Any])


def retry_advice(job: JobRecord) -> str:
    """Return the last word of the text that says what to do after a failure: the job's hint, or by its code.

    A bare ValueError is no verdict on the input: a function deep inside may have raised it.
    """
    if job.error_code == "validation_error" and ERROR_TYPE in error_meta(job):
        return "probably_input"
    return job.retry_hint or ("internal" if job.error_code == "internal" else "none")


def job_error(job: JobRecord, words: AnalysisWords) -> str:
    """Return the message of a failed job."""
    return error_text(job.error_message or "", error_meta(job).get(SENTENCE), words)


def error_text(message: str, sentence: object, words: AnalysisWords) -> str:
    """Return the message of an error: Langlauf's sentence, or what the analysis wrote."""
    return _own_sentence(sentence, words.language) or words.text(message)


def _own_sentence(sentence: object, language: Language) -> str | None:
    """Return a sentence of Langlauf, or None where this version does not know it, with all of its values."""
    if not isinstance(sentence, Mapping):
        return None
    template = language.texts.get(f"sentence.{sentence.get('name')}")
    try:
        return template and template.format_map({name: _value(one, language) for name, one in sentence.items()})
    except (LookupError, ValueError):
        return None


def _value(value: object, language: Language) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return language.number(str(value)) if isinstance(value, int | float) else phrase(str(value), language)


def phrase(text: str, language: Language) -> str:
    """Return a phrase of Langlauf, such as a reason for a cancellation; any other text stays as it is."""
    return _phrases().translate(text, language.code, language.rewrite_number)


@cache
def _phrases() -> Wording:
    languages = [load_language(code) for code in LANGUAGES]
    stored = {key: text for key, text in languages[0].texts.items() if key.startswith(PHRASES)} | _STORED
    texts = {one.code: {text: one.texts[key] for key, text in stored.items()} for one in languages}
    return wording_of("langlauf", (), {"texts": texts})
