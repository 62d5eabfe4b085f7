"""Colours, language and shortcuts: chosen by hand, kept in the browser, without a script."""

from collections.abc import Iterator

import httpx2
import pytest

from langlauf.ui.formats import display_state
from langlauf.ui.pages.public import state_docs
from tests.support.live import Live
from tests.ui.forms import FROM_HERE
from tests.ui.html_page import HtmlPage, assert_page
from tests.ui.test_texts import possible_states


@pytest.fixture
def browser(server: Live) -> Iterator[httpx2.Client]:
    """A browser with cookies of its own."""
    with httpx2.Client(base_url=server.url, trust_env=False, timeout=60, headers=FROM_HERE) as client:
        yield client


def chosen(made: HtmlPage) -> dict[str, str]:
    """What the form has marked."""
    return {one["name"]: one["value"] for one in made.all("input") if one["type"] == "radio" and "checked" in one}


def test_a_choice_is_kept(browser: httpx2.Client) -> None:
    """On every page, until it is taken back."""
    assert chosen(assert_page(browser.get("/settings"))) == {"theme": "", "language": "", "shortcuts": "on"}
    saved = browser.post("/settings", data={"theme": "dark", "language": "de", "shortcuts": "off"})
    assert (saved.status_code, saved.headers["location"]) == (303, "./settings?saved=yes")
    cookies = saved.headers.get_list("set-cookie")
    assert all("HttpOnly" in one and "SameSite=lax" in one for one in cookies)
    made = assert_page(browser.get("/settings?saved=yes"))
    assert chosen(made) == {"theme": "dark", "language": "de", "shortcuts": "off"}
    assert "Gespeichert." in made.text
    for address in ("/", "/docs", "/problems/timeout", "/help/states"):
        made = assert_page(browser.get(address))
        assert made.all("html") == [{"lang": "de", "data-theme": "dark"}]
        assert made.all("dialog") == []
    browser.post("/settings", data={"theme": "", "language": "", "shortcuts": "on"})
    assert assert_page(browser.get("/")).all("html") == [{"lang": "en"}]


def test_the_switch_in_the_head_leads_back(browser: httpx2.Client) -> None:
    """To where it was pressed, and changes the colours alone."""
    browser.post("/settings", data={"language": "de"})
    for theme in ("light", "dark", ""):
        made = assert_page(browser.get("/problems/timeout"))
        [button] = [one for one in made.all("button") if one.get("name") == "theme"]
        [back] = [one["value"] for one in made.all("input") if one.get("name") == "back"]
        assert button["value"] == theme
        answer = browser.post("/settings", data={"theme": theme, "back": back})
        assert answer.headers["location"] == "./problems/timeout"
    assert assert_page(browser.get("/")).all("html") == [{"lang": "de"}]


def test_nobody_is_sent_elsewhere(browser: httpx2.Client) -> None:
    """Only ever to a page of ours."""
    for back in ("//evil.example", "https://evil.example", "/\\evil.example"):
        assert browser.post("/settings", data={"theme": "dark", "back": back}).headers["location"] == "./"


def test_the_address_is_stronger_than_the_cookie(browser: httpx2.Client) -> None:
    """And the cookie than the browser; a cookie that is none of ours is none."""
    browser.cookies.set("langlauf_language", "de")
    assert assert_page(browser.get("/", headers={"Accept-Language": "en"})).all("html") == [{"lang": "de"}]
    assert assert_page(browser.get("/?lang=en")).all("html") == [{"lang": "en"}]
    browser.cookies.set("langlauf_language", "fr")
    browser.cookies.set("langlauf_theme", '"><script>')
    assert assert_page(browser.get("/", headers={"Accept-Language": "de"})).all("html") == [{"lang": "de"}]


def test_another_site_changes_nothing(browser: httpx2.Client) -> None:
    """Not even colours."""
    answer = browser.post("/settings", data={"theme": "dark"}, headers={"Sec-Fetch-Site": "cross-site"})
    assert_page(answer, 403)
    assert "set-cookie" not in answer.headers


def test_every_state_is_explained(server: Live) -> None:
    """Each that a job can show, once, with its shape, in both languages."""
    faces = {display_state(status, phase) for status, phase in possible_states()}
    assert sorted(shown.display_state for shown in state_docs()) == sorted(faces)
    for language, word in (("en", "Interim result, still running"), ("de", "Zwischenstand, läuft weiter")):
        made = assert_page(server.http.get("/help/states", params={"lang": language}))
        assert {one["id"] for tag, one in made.elements if tag == "tr" and "id" in one} == faces
        assert word in made.text
        assert len([one for one in made.all("svg") if one.get("class") == "shape"]) == len(faces)
