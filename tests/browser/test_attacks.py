"""Markup and code in every text that somebody can store: it is shown, and nothing of it runs."""

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
import pytest
from playwright.sync_api import Page

from langlauf import Job, Langlauf, PermanentError, Result, views
from tests.browser.conftest import OpenTab
from tests.support.live import GATES, Live, live

#: Each would leave a mark if it ran. None of them says anything to the policy unless it became markup.
ATTACKS = (
    "<script>window.hit=1</script>",
    '"><img src=x onerror="window.hit=1">',
    "<svg onload=window.hit=1>",
    "javascript:window.hit=1",
    "[click](javascript:window.hit=1) <iframe srcdoc='<script>parent.hit=1</script>'></iframe>",
    "{{7*7}}${7*7}<!--",
    "</textarea></title></style><b autofocus tabindex=0 onfocus=window.hit=1>",
)
ALL = " ".join(ATTACKS)
Attack = Annotated[str, msgspec.Meta(description=ALL, examples=[ALL])]
_GATE = "attacks"


def hostile_app() -> Langlauf:
    """Every text that an analysis has is an attack."""
    app = Langlauf()

    async def hostile(job: Job, query: Attack, ends: Attack = ALL) -> Any:
        found = {ALL: query, "rows": [{ALL: one, "n": 1} for one in ATTACKS]}
        await job.partial(found, summary={ALL: ALL}, step=ALL, progress=30, views=shown())
        if ends == "waits":
            await GATES.wait(_GATE)
        if ends == "fails":
            raise PermanentError(ALL, code=ALL)
        return Result(found, summary={ALL: [ALL]}, views=shown())

    hostile.__doc__ = f"{ALL}\n\n{ALL}"
    app.analysis(duplicates=True)(hostile)
    return app


def shown() -> list[views.AnyView]:
    """Attacks in every part of every view."""
    spec = {
        "title": ALL,
        "data": {"values": [{"a": one, "b": number} for number, one in enumerate(ATTACKS)]},
        "mark": "bar",
        "encoding": {
            "x": {"field": "a", "type": "nominal", "title": ALL},
            "y": {"field": "b", "type": "quantitative"},
            "href": {"value": "javascript:window.hit=1"},
            "tooltip": {"value": ALL},
        },
    }
    place = {"type": "Point", "coordinates": [8.5, 47.4]}
    feature = {"type": "Feature", "properties": {ALL: ALL, "name": ALL, "fill": ALL}, "geometry": place}
    return [
        views.table([{ALL: one} for one in ATTACKS], title=ALL, columns=[views.Column(name=ALL, title=ALL, unit=ALL)]),
        views.chart(spec, title=ALL, summary=ALL),
        views.map({"type": "FeatureCollection", "features": [feature]}, title=ALL),
        views.markdown("\n\n".join((*ATTACKS, f"# {ALL}", f"`{ALL}`", f"> {ALL}")), title=ALL),
        views.file("attack.html", ALL, media_type="text/html"),
        views.file("attack.svg", ATTACKS[2], media_type="image/svg+xml"),
    ]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server whose every text is an attack."""
    with live(tmp_path_factory.mktemp("attacks"), hostile_app()) as running:
        yield running


def pages(site: Live) -> list[str]:
    """Every page that shows something of an org, full of attacks."""
    jobs = {ends: site.submit("hostile", query=ALL, ends=ends)["job_id"] for ends in ("completes", "fails", "waits")}
    for ends, until in (("completes", None), ("fails", None), ("waits", "partial")):
        site.wait(jobs[ends], until=until)
    canceled = site.submit("hostile", query=ALL, ends="waits")["job_id"]
    site.wait(canceled, until="partial")
    site.http.post(f"/analyze/jobs/{canceled}/cancel", json={"reason": ALL})
    site.wait(canceled)
    result = site.job(jobs["completes"])["result_id"]
    found = [f"/jobs/{job_id}" for job_id in (*jobs.values(), canceled)]
    found += [f"/results/{result}", f"/results/{result}/v/1", f"/results/{result}/diff?from=1&to=2"]
    found += ["/", f"/?from={jobs['fails']}", "/jobs", "/errors?range=all", "/inbox", "/ops", "/docs"]
    return [*found, f"/jobs?q={ALL}", f"/jobs/{ALL}", f"/?analysis={ALL}", f"/jobs/{jobs['waits']}/cancel"]


def test_nothing_that_is_stored_runs(tab: OpenTab, site: Live, troubles: list[str]) -> None:
    """On any page; with every part unfolded, and every link of the content looked at."""
    page = tab()
    page.on("dialog", lambda dialog: troubles.append(f"a dialog: {dialog.message}"))
    for address in pages(site):
        page.goto(address)
        _unfold(page)
        assert page.evaluate("window.hit ?? 0") == 0, address
        assert page.evaluate("document.querySelectorAll('iframe, [onerror], [onload], [onfocus], [src=x]').length") == 0
        links = page.locator("a").evaluate_all("all => all.map(one => one.protocol)")
        assert set(links) <= {"http:", "https:", "mailto:"}, address
    GATES.open(_GATE)
    troubles[:] = [one for one in troubles if "404" not in one]


def _unfold(page: Page) -> None:
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    page.evaluate("document.querySelectorAll('[role=tabpanel]').forEach(one => { one.hidden = false; })")
