"""The page for operators: what it says, to whom, and that the address holds what is looked at."""

import re
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.support.keys import OPERATOR, bearer, make_key
from tests.support.live import GATES, Live, live
from tests.ui.html_page import assert_page

#: A cell of a table that becomes cards on a phone: its label, and what it says.
_CELL = re.compile(r'data-label="([^"]+)">([^<]*)</td>')


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Live, dict[str, str]]]:
    """A server that asks for keys, with jobs of two orgs; and the headers of somebody of org-a."""
    folder = tmp_path_factory.mktemp("ops")
    key = make_key(folder / "store.db", "org-a").text
    with live(folder, API_AUTH_TOKEN=OPERATOR) as server:
        server.http.headers.update(bearer(OPERATOR))
        for org in ("org-a", "org-b"):
            for _ in range(2):
                server.wait(server.submit("echo", org, query="x")["job_id"], org)
        failed = server.submit("failing", "org-b", how="permanent")
        server.wait(failed["job_id"], "org-b")
        yield server, bearer(key)


def test_an_operator_sees_all_orgs(guarded: tuple[Live, dict[str, str]]) -> None:
    """Their jobs together, each org by itself, the errors, and every worker by its host."""
    server, _ = guarded
    made = assert_page(server.http.get("/ops"))
    assert "All organisations" in made.text
    assert "Healthy" in made.text_of("h2")
    assert "Ended: 5. Failed: 1." in made.text
    assert "address_intel" in made.text
    assert "./errors?range=1h" in made.links()
    assert {"./ops?range=1h&org=org-a", "./ops?range=1h&org=org-b"} <= set(made.links())
    assert "Available workers: 1." in made.text
    assert "process" in made.text


def test_an_operator_can_look_at_one_org(guarded: tuple[Live, dict[str, str]]) -> None:
    """The address names it, the field shows it, and changing the range or the language keeps it."""
    server, _ = guarded
    made = assert_page(server.http.get("/ops?org=org-a&range=24h"))
    assert "Ended: 2. Failed: 0." in made.text
    assert "address_intel" not in made.text
    [field] = [one for one in made.all("input") if one.get("id") == "org"]
    assert field["value"] == "org-a"
    assert {"?org=org-a&range=7d", "?org=org-a&range=24h&lang=de"} <= set(made.links())
    [current] = [one for one in _choices(server.http.get("/ops?org=org-a&range=24h")) if "aria-current" in one]
    assert current["href"] == "?org=org-a&range=24h"
    assert "0 ended" in assert_page(server.http.get("/ops?org=nobody")).text
    assert_page(server.http.get("/ops?org=a%20b"), 400)


def test_others_see_their_own_org(guarded: tuple[Live, dict[str, str]]) -> None:
    """Whatever the address asks for; and of workers how many there are, nothing else."""
    server, key = guarded
    for address in ("/ops", "/ops?org=org-b", "/ops?org="):
        made = assert_page(server.http.get(address, headers=key))
        assert "Organisation: org-a" in made.text
        assert "Ended: 2. Failed: 0." in made.text
        assert "org-b" not in made.text
        assert "address_intel" not in made.text
        assert "Available workers: 1." in made.text
        assert "process" not in made.text
        assert not [one for one in made.all("input") if one["name"] == "org"]
    for address in ("/ops/workers", "/ops/orgs"):
        assert_page(server.http.get(address, headers=key), 403)
        assert_page(server.http.get(address))


def test_an_unknown_range_is_the_usual_one(server: Live) -> None:
    """A link from another version still leads somewhere."""
    [current] = [one for one in _choices(server.http.get("/ops?range=3y")) if "aria-current" in one]
    assert current["href"] == "?range=1h"


def _choices(response: httpx2.Response) -> list[dict[str, str]]:
    links = assert_page(response).all("a")
    return [
        one for one in links if one["href"].startswith("?") and "range=" in one["href"] and "lang" not in one["href"]
    ]


def test_parts_can_be_replaced_and_charts_have_words(server: Live) -> None:
    """Each part that changes has an id; each chart a title and its figures in a table."""
    made = assert_page(server.http.get("/ops"))
    parts = [attributes for _, attributes in made.elements if "data-part" in attributes]
    ids = [one["id"] for one in parts]
    assert ids[-9:] == ["health", "tiles", "cover", "series", "analyses", "pauses", "errors", "workers", "orgs"]
    assert made.all("main")[0]["data-follow"] == "org"
    drawings = [one for one in made.all("svg") if "drawing" in one.get("class", "")]
    assert len(drawings) == 4
    rows = [one for one in made.all("th") if one.get("scope") == "row"]
    assert len(rows) >= 30


def test_a_store_without_a_worker_says_so(tmp_path: Path) -> None:
    """A server whose worker stopped tells that nothing will start, in both languages."""
    with live(tmp_path, LANGLAUF_WORKERS="0") as idle:
        waiting = idle.submit("echo", query="x")
        made = assert_page(idle.http.get("/ops"))
        assert "No worker is running" in made.text_of("h2")
        assert "Waiting jobs: 1." in made.text
        assert "No running worker knows this analysis." in assert_page(idle.http.get(f"/jobs/{waiting['job_id']}")).text
        german = assert_page(idle.http.get("/ops?lang=de"))
        assert "Wartende Jobs: 1." in german.text


def test_what_runs_and_waits_is_told(tmp_path: Path) -> None:
    """By analysis, with how many may run."""
    with live(tmp_path, LANGLAUF_MAX_RUNNING="2") as busy:
        for number in range(3):
            busy.submit("gated", gate=f"ops-{number}")
        GATES.wait_until_reached("ops-1")
        cells = _CELL.findall(busy.http.get("/ops?range=15m").text)
        assert cells[:3:2] == [("Waiting", "1"), ("Running", "2 of 2")]
        for number in range(3):
            GATES.open(f"ops-{number}")


def test_an_operator_pauses_and_resumes_here(guarded: tuple[Live, dict[str, str]]) -> None:
    """For all orgs, or for the one that is shown; the waiting job says why, and the page offers to resume."""
    server, _ = guarded
    assert "Nothing is paused." in server.http.get("/ops").text
    form = {"analysis": "gated", "because": "the source <b>is</b> down", "org": "org-b", "shown": "org-b"}
    done = server.http.post("/ops/pause", data=form)
    assert (done.status_code, done.headers["Location"]) == (303, "../ops?org=org-b")
    try:
        shown = assert_page(server.http.get("/ops?org=org-b"))
        assert "for org-b" in shown.text
        assert "the source <b>is</b> down" in shown.text
        job = server.submit("gated", "org-b", gate="never")
        page = assert_page(server.http.get(f"/jobs/{job['job_id']}", headers={"X-Org-Id": "org-b"}))
        assert "Paused" in page.text
        assert "This analysis has been paused since" in page.text
        assert "the source <b>is</b> down" in page.text
        assert " left (" not in page.text  # an estimate would be that of the pause
        form_page = server.http.get("/?analysis=gated", headers={"X-Org-Id": "org-b"})
        assert "A job that you start now waits until the pause ends." in assert_page(form_page).text
        assert "waits until the pause" not in server.http.get("/?analysis=gated", headers={"X-Org-Id": "org-a"}).text
        german = assert_page(server.http.get(f"/jobs/{job['job_id']}?lang=de", headers={"X-Org-Id": "org-b"}))
        assert "Pausiert" in german.text
        late = server.http.post("/ops/pause", data={**form, "org": "", "until": "2020-01-01T10:00"})
        assert late.status_code == 400
        server.http.post(f"/analyze/jobs/{job['job_id']}/cancel", headers={"X-Org-Id": "org-b"})
    finally:
        assert server.http.post("/ops/resume", data=form).status_code == 303
    assert "Nothing is paused." in server.http.get("/ops").text
    assert server.http.get("/ops/pause").headers["Location"] == "../ops"


def test_an_org_pauses_nothing_of_others(guarded: tuple[Live, dict[str, str]]) -> None:
    """Without the scope there is no form, and its address refuses."""
    server, mine = guarded
    key = bearer(mine["Authorization"].split()[1])
    assert 'name="because"' not in httpx2.get(f"{server.url}/ops", headers=key, timeout=60).text
    form = {"analysis": "gated", "because": "x", "org": "org-b"}
    assert httpx2.post(f"{server.url}/ops/pause", data=form, headers=key, timeout=60).status_code == 403
    assert "Nothing is paused." in server.http.get("/ops").text
