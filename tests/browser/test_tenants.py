"""People of two orgs with a browser each: everybody signs in, sees their own, and nothing else."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.accessibility import assert_accessible
from tests.browser.conftest import OpenTab
from tests.support.live import Live, live

OPERATOR = "operator-token-of-a-browser-test"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server that asks for keys."""
    with live(tmp_path_factory.mktemp("closed"), API_AUTH_TOKEN=OPERATOR) as running:
        yield running


def key_of(site: Live, org: str) -> str:
    """A key for the pages: it reads, submits and cancels."""
    headers = {"Authorization": f"Bearer {OPERATOR}", "X-Org-Id": org}
    body = {"name": "browser", "scopes": ["read", "submit", "cancel"]}
    answer = site.http.post("/analyze/keys", json=body, headers=headers)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["key"])


def job_of(site: Live, key: str) -> str:
    """A job that has ended."""
    headers = {"Authorization": f"Bearer {key}", "Prefer": "respond-async, wait=30"}
    answer = site.http.post("/analyze", json={"query": "Bern"}, headers=headers)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["job_id"])


def sign_in(page: Page, key: str) -> None:
    """As a person does it."""
    page.get_by_label("Key", exact=True).fill(key)
    page.get_by_role("button", name="Sign in").click()


def test_another_orgs_job_is_a_page_that_does_not_exist(site: Live, tab: OpenTab, troubles: list[str]) -> None:
    """The link of a stranger's job looks like a link that never led anywhere; one's own leads on after signing in."""
    mine, theirs = key_of(site, "mine"), key_of(site, "theirs")
    own, foreign = job_of(site, mine), job_of(site, theirs)
    page = tab()
    page.goto(f"/jobs/{own}")
    assert_accessible(page)
    sign_in(page, mine)
    expect(page).to_have_url(f"{site.url}/jobs/{own}")
    expect(page.get_by_role("banner")).to_contain_text("mine")
    seen = []
    for job_id in (foreign, "01900000-0000-7000-8000-000000000000"):
        answer = page.goto(f"/jobs/{job_id}")
        assert answer is not None
        assert answer.status == 404
        seen.append(page.locator("main").inner_text())
    without_ids = [text.rpartition("Request")[0] for text in seen]
    assert without_ids[0] == without_ids[1] != ""
    assert "mine" in seen[0]
    assert "theirs" not in seen[0]
    troubles[:] = [one for one in troubles if not any(status in one for status in ("401", "404"))]
