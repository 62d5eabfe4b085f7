"""The words of analyses in the language of a page or an e-mail."""

from langlauf.analysis.registry import Registry
from langlauf.analysis.wording import Wording
from langlauf.ui.language import Language

_NO_WORDING = Wording()


class AnalysisTexts:
    """Looks up what authors of analyses wrote for people; one that is not registered has only its name."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def wording(self, name: str) -> Wording:
        """Return the words of an analysis."""
        analysis = self._registry.get(name)
        return _NO_WORDING if analysis is None else analysis.wording

    def title(self, name: str, language: Language) -> str:
        """Return the title of an analysis, or its name."""
        analysis = self._registry.get(name)
        return name if analysis is None else self.text(name, analysis.title, language)

    def text(self, name: str, text: str, language: Language) -> str:
        """Return a text of an analysis in a language; the text itself where it has no translation."""
        return self.wording(name).translate(text, language.code)
