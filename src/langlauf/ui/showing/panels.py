"""The panels of a snapshot, in the order in which they are shown."""

import msgspec
from markupsafe import Markup

from langlauf.domain.result import StoredResult
from langlauf.ui.formatting import excerpt
from langlauf.ui.rendering import Rendering
from langlauf.ui.visit import Visit


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to look at. `name` is its anchor on the page."""

    name: str
    title: str
    html: Markup


class Showing:
    """Draws what a snapshot holds."""

    def __init__(self, rendering: Rendering) -> None:
        self._rendering = rendering

    async def panels(self, visit: Visit, stored: StoredResult) -> list[Panel]:
        """All panels of a snapshot whose payload is there."""
        if stored.payload is None:
            return []
        text = self._rendering.html(visit, "showing/json.html", body=excerpt(stored.payload))
        html = Markup(text)  # noqa: S704 - a template's own output, escaped when it was made
        return [Panel(name="json", title="JSON", html=html)]
