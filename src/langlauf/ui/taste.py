"""How a reader likes pages to be: what they chose in the settings, kept in cookies of their browser."""

import msgspec
from starlette.requests import Request

from langlauf.ui.language import LANGUAGES

THEMES = ("light", "dark")
THEME_COOKIE = "langlauf_theme"
LANGUAGE_COOKIE = "langlauf_language"
SHORTCUTS_COOKIE = "langlauf_shortcuts"
OFF = "off"


class Taste(msgspec.Struct, frozen=True, kw_only=True):
    """What was chosen; an empty text leaves it to the browser."""

    theme: str = ""
    language: str = ""
    shortcuts: bool = True

    @property
    def next_theme(self) -> str:
        """What the switch in the head of a page changes to."""
        order = ("", *THEMES)
        return order[(order.index(self.theme) + 1) % len(order)]


def taste_of(request: Request) -> Taste:
    """What the browser remembers; a value that is none of ours is no choice."""
    theme = request.cookies.get(THEME_COOKIE, "")
    language = request.cookies.get(LANGUAGE_COOKIE, "")
    return Taste(
        theme=theme if theme in THEMES else "",
        language=language if language in LANGUAGES else "",
        shortcuts=request.cookies.get(SHORTCUTS_COOKIE) != OFF,
    )
