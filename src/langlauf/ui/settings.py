"""`/settings`: theme, language and shortcuts, chosen by hand and kept in the browser."""

from starlette.responses import Response

from langlauf.api.context import Context
from langlauf.api.requests import read_form
from langlauf.auth.browser import drop_cookie, from_elsewhere, keep_cookie
from langlauf.problems import forbidden
from langlauf.ui.going import see_other
from langlauf.ui.language import LANGUAGES
from langlauf.ui.local import local_path
from langlauf.ui.rendering import PRIVATE, Rendering
from langlauf.ui.taste import LANGUAGE_COOKIE, OFF, SHORTCUTS_COOKIE, THEME_COOKIE, THEMES
from langlauf.ui.visit import Visit

#: A year: longer is not kept by browsers anyway.
_KEPT_SECONDS = 365 * 86_400
#: Each choice: its field in the form, its cookie, and what is worth remembering.
_CHOICES = (
    ("theme", THEME_COOKIE, THEMES),
    ("language", LANGUAGE_COOKIE, LANGUAGES),
    ("shortcuts", SHORTCUTS_COOKIE, (OFF,)),
)


class SettingsPage:
    """`/settings`."""

    def __init__(self, context: Context, rendering: Rendering) -> None:
        self._context = context
        self._rendering = rendering

    async def show(self, visit: Visit) -> Response:
        """The form with what is chosen now."""
        saved = visit.request.query_params.get("saved") == "yes"
        return self._rendering.page(visit, "settings.html", cache=PRIVATE, themes=("", *THEMES), saved=saved)

    async def save(self, visit: Visit) -> Response:
        """Remembers what the form says, and leaves alone what it does not ask about."""
        fields = await read_form(visit.request, self._context.settings.body_seconds)
        if from_elsewhere(visit.request, self._context.settings):
            raise forbidden("A page of another site may not change anything here.")
        onward = f"./{local_path(fields['back'])}" if "back" in fields else "./settings?saved=yes"
        response = see_other(onward)
        for field, cookie, known in _CHOICES:
            if fields.get(field) in known:
                keep_cookie(visit.request, self._context.settings, response, cookie, fields[field], _KEPT_SECONDS)
            elif field in fields:
                drop_cookie(visit.request, self._context.settings, response, cookie)
        return response
