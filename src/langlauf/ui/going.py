"""After a form: on to another page of ours, which a browser then asks for by itself."""

from starlette.responses import RedirectResponse, Response

from langlauf.problems import VARY


def see_other(address: str) -> Response:
    """Leads on. Where to depends on who asks, so nobody keeps it."""
    return RedirectResponse(address, 303, headers={"Cache-Control": "no-store", "Vary": VARY})
