"""The form on a page, as a browser would fill it in and send it."""

from typing import Any

from tests.support.live import Live
from tests.ui.html_page import HtmlPage, assert_page

#: What a browser sends with the form of a page it got from here.
FROM_HERE = {"Sec-Fetch-Site": "same-origin", "Accept": "text/html"}


def form_fields(made: HtmlPage) -> dict[str, str]:
    """Everything the form would send as it stands on the page."""
    sent = {one["name"]: one.get("value", "") for one in made.all("input") if _is_sent(one)}
    sent |= {one["name"]: text for one, text in made.areas()}
    return sent | dict(made.selected())


def _is_sent(one: dict[str, str]) -> bool:
    ticked = one["type"] not in ("checkbox", "radio") or "checked" in one
    return "name" in one and ticked and one["name"] not in ("back", "resume")


def fill(server: Live, address: str = "/", headers: dict[str, str] | None = None, **values: str) -> dict[str, str]:
    """The form of an address with other values; names are those of parameters."""
    blank = form_fields(assert_page(server.http.get(address, headers=headers or {})))
    return blank | {f"in.{name}": value for name, value in values.items()}


def send(server: Live, data: dict[str, str], headers: dict[str, str] | None = None) -> Any:
    """Sends a form, and does not follow where it leads."""
    return server.http.post("/", data=data, headers={**FROM_HERE, **(headers or {})}, follow_redirects=False)
