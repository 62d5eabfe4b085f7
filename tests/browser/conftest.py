"""A real browser, and a server for it. A tab that complains of anything fails its test."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect, sync_playwright

from tests.support.chromium import FLAGS, chromium
from tests.support.live import Live, live

#: Milliseconds to wait for what will come, on a machine however busy; the default of `expect` is five seconds.
PATIENCE = 60_000
expect.set_options(timeout=PATIENCE)
#: Opens a tab in a browser profile of its own; options are those of Playwright's `new_context`.
OpenTab = Callable[..., Page]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium for the tests of a module: while it runs, nothing else can have an event loop in this thread."""
    path = chromium()
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield started
        started.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server with the sample analyses."""
    with live(tmp_path_factory.mktemp("site"), LANGLAUF_MAX_RUNNING="16") as running:
        yield running


@pytest.fixture
def troubles() -> list[str]:
    """What a tab complained of: errors of scripts and of the policy, requests to other hosts. Clear it to forgive."""
    return []


@pytest.fixture
def tab(browser: Browser, site: Live, troubles: list[str]) -> Iterator[OpenTab]:
    """Opens tabs on the server."""
    contexts: list[BrowserContext] = []

    def open_tab(**options: Any) -> Page:
        context = browser.new_context(**{"base_url": site.url, "locale": "en-GB", **options})
        contexts.append(context)
        context.set_default_timeout(PATIENCE)
        return listened(context.new_page(), site.url, troubles)

    yield open_tab
    for context in contexts:
        context.close()
    assert troubles == []


@pytest.fixture
def page(tab: OpenTab) -> Page:
    """One tab."""
    return tab()


def listened(page: Page, url: str, troubles: list[str]) -> Page:
    """A tab whose complaints are kept."""

    def told(message: ConsoleMessage) -> None:
        if message.type == "error":
            troubles.append(message.text)

    def asked(request: Request) -> None:
        if not request.url.startswith((url, "data:", "blob:")):
            troubles.append(f"asked another host: {request.url}")

    page.on("console", told)
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("request", asked)
    return page
