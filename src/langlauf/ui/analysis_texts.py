"""The words of analyses in the language of a page or an e-mail."""

import re
from typing import Any

import msgspec

from langlauf.analysis.registry import Registry
from langlauf.analysis.texts import Wording
from langlauf.ui.language import Language

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
