"""What all pages have in common: headers, language, caching, keys, and that they work below a mount point."""

import asyncio
from pathlib import Path
from urllib.parse import urljoin

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from langlauf.settings import load_settings
from tests.support.live import Live, live, sample_app
from tests.ui.html_page import HtmlPage, assert_page

GERMAN = {"Accept-Language": "de-CH, en;q=0.5"}


def addresses(server: Live) -> list[str]:
    """One address of every page."""
    job = server.wait(server.submit("echo", query="Bern")["job_id"])
    return [
        "/",
        "/jobs",
        "/jobs?status=completed&q=bern&range=24h",
        f"/selected?do=again&job={job['job_id']}",
        "/errors",
        "/inbox",
        "/schedules",
        "/webhooks",
        "/webhooks?status=failed",
        f"/jobs/{job['job_id']}",
        f"/results/{job['result_id']}",
        f"/results/{job['result_id']}?view=requested",
        "/ops",
        "/ops/workers",
        "/ops/orgs",
        f"/results/{job['result_id']}/v/1",
        f"/results/{job['result_id']}/diff",
        "/docs",
        "/problems",
        "/problems/timeout",
        "/settings",
        "/help/states",
    ]


def test_every_page_is_sound_and_strict(server: Live) -> None:
    """200 with the policy, sound markup, nothing active and nothing from elsewhere, in both languages."""
    for address in addresses(server):
        for headers, language in (({}, "en"), (GERMAN, "de")):
            response = server.http.get(address, headers=headers)
            made = assert_page(response)
            assert made.all("html") == [{"lang": language}]
            assert response.headers["content-language"] == language
            assert server.http.head(address, headers=headers).status_code == 200


def test_tenant_pages_are_not_kept(server: Live) -> None:
    """What belongs to an org is stored by nobody on the way; what is the same for all may be, for a while."""
    for address in addresses(server):
        cache = server.http.get(address).headers["cache-control"]
        public = address.startswith(("/docs", "/problems", "/help"))
        assert cache == ("public, max-age=300" if public else "private, no-store")


@pytest.mark.parametrize(
    ("wish", "language"),
    [
        ("de", "de"),
        ("de-AT", "de"),
        ("fr, de;q=0.3, en;q=0.2", "de"),
        ("fr, en;q=0.9, de;q=0.8", "en"),
        ("de;q=0", "en"),
        ("de;q=much, en;q=0.1", "en"),
        ("fr", "en"),
        ("*", "en"),
        ("", "en"),
    ],
)
def test_the_language_is_what_the_reader_likes_best(server: Live, wish: str, language: str) -> None:
    """Among ours, by weight; English for whoever wishes for neither."""
    made = assert_page(server.http.get("/", headers={"Accept-Language": wish}))
    assert made.all("html") == [{"lang": language}]


def test_a_language_in_the_address_wins_and_stays(server: Live) -> None:
    """?lang=de beats the header, and the links of the page ask for it too; an unknown one is ignored."""
    made = assert_page(server.http.get("/problems?lang=de", headers={"Accept-Language": "en"}))
    assert "Fehlercodes" in made.text_of("h1")
    assert "./problems/timeout?lang=de" in made.links()
    made = assert_page(server.http.get("/problems?lang=fr", headers={"Accept-Language": "en"}))
    assert "Error codes" in made.text_of("h1")
    assert "./problems/timeout" in made.links()


def test_changing_the_language_keeps_what_is_looked_at(server: Live) -> None:
    """The view of a result stays."""
    job = server.wait(server.submit("echo", query="Bern")["job_id"])
    made = assert_page(server.http.get(f"/results/{job['result_id']}?view=requested&other=1"))
    assert "?view=requested&lang=de" in made.links()


def test_the_style_sheet_is_kept_under_the_address_of_its_content(server: Live) -> None:
    """For a year as linked; an address of another version is asked for again."""
    [sheet] = [one["href"] for one in assert_page(server.http.get("/")).all("link") if one["rel"] == "stylesheet"]
    response = server.http.get(urljoin("/", sheet))
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/css; charset=utf-8"
    assert response.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert server.http.get("/static/old/langlauf.css").headers["cache-control"] == "no-cache"


def test_a_header_that_cannot_be_read_gets_a_page(server: Live) -> None:
    """An org that cannot be one is a 400 in HTML, told in the reader's language."""
    response = server.http.get("/", headers={"X-Org-Id": "a b", **GERMAN})
    made = assert_page(response, 400)
    assert "Die Anfrage ist nicht gültig" in made.text_of("h1")
    assert response.headers["x-request-id"] in made.text


def test_pages_of_tenants_ask_for_the_key(tmp_path: Path) -> None:
    """401 as a page with the challenge; reference, problems and style need no key."""
    with live(tmp_path, API_AUTH_TOKEN="s3cret-operator-token") as guarded:
        for address in ("/", "/jobs/x", "/results/x"):
            response = guarded.http.get(address)
            assert "Sign in" in assert_page(response, 401).text_of("h1")
            assert response.headers["www-authenticate"].startswith("Bearer")
        for address in ("/docs", "/problems", "/problems/timeout"):
            assert_page(guarded.http.get(address))
        assert guarded.http.get("/static/any/langlauf.css").status_code == 200
        made = assert_page(guarded.http.get("/", headers={"Authorization": "Bearer s3cret-operator-token"}))
        assert "Bearer $LANGLAUF_KEY" in made.text
        assert "s3cret-operator-token" not in made.text


def test_links_work_below_a_mount_point(tmp_path: Path) -> None:
    """Every link of every page leads somewhere when the application is mounted under a prefix."""
    app = sample_app(settings=load_settings({"ASYNC_JOBS_STORE_FILE": str(tmp_path / "s.db")}))

    async def scene() -> None:
        outer = Starlette(routes=[Mount("/tools/jobs", app.asgi())])
        async with (
            app.lifespan(),
            httpx2.AsyncClient(transport=httpx2.ASGITransport(outer), base_url="http://jobs.example") as client,
        ):
            wish = {"Prefer": "respond-async, wait=30"}
            answer = await client.post("/tools/jobs/analyze", json={"query": "Bern"}, headers=wish)
            job, result = answer.json()["job_id"], answer.json()["result_id"]
            for start in (
                "",
                f"jobs/{job}",
                f"results/{result}",
                "ops",
                "ops/workers",
                "docs",
                "problems",
                "problems/timeout",
                "settings",
                "help/states",
            ):
                address = f"/tools/jobs/{start}"
                made = assert_page(await client.get(address))
                for target in await _targets(made, address):
                    assert (await client.get(target)).status_code == 200, (address, target)
            start_page = HtmlPage((await client.get("/tools/jobs/")).text)
            assert "http://jobs.example/tools/jobs/analyze" in start_page.text

    async def _targets(made: HtmlPage, address: str) -> set[str]:
        """Everything the page leads to; the API's addresses of a GET among them."""
        linked = made.links() + [one["href"] for one in made.all("link") if not one["href"].startswith("data:")]
        return {urljoin(address, target).partition("#")[0] for target in linked}

    asyncio.run(scene())
