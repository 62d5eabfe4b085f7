"""The permanent page of a result: newest or exactly this one, and what retention leaves of it."""

from pathlib import Path

from langlauf.clock import SystemClock, new_id
from langlauf.domain.result import RetentionPolicy
from langlauf.maintenance.duties import apply_retention
from langlauf.store.sqlite.driver import SqliteStore
from langlauf.ui.formats import MAX_JSON_BYTES
from tests.support.live import GATES, Live, live
from tests.support.stores import DAY, SetClock, with_store
from tests.ui.html_page import assert_page

LONG_GONE = RetentionPolicy(final_results=DAY, partial_results=DAY, events=DAY, jobs=None)


def test_a_result_shows_the_newest_or_exactly_itself(server: Live) -> None:
    """The link of a partial moves on with its job; view=requested stays, and each leads to the other."""
    gate = new_id()
    job_id = server.submit("gated", gate=gate, partials=2)["job_id"]
    GATES.wait_until_reached(gate)
    first = server.http.get(f"/analyze/jobs/{job_id}/results").json()["results"][0]["result_id"]
    made = assert_page(server.http.get(f"/results/{first}"))
    assert "Version 2 of 2" in made.text
    assert "The job continues. Numbers can still change." in made.text
    assert made.refresh is None
    GATES.open(gate)
    final = server.wait(job_id)["result_id"]
    latest = assert_page(server.http.get(f"/results/{first}"))
    assert "Version 3 of 3" in latest.text
    assert "Final result" in latest.text
    assert f"../results/{first}?view=requested" in latest.links()
    assert f"/analyze/results/{final}?view=requested" in latest.links()
    exact = assert_page(server.http.get(f"/results/{first}?view=requested"))
    assert "Version 1 of 3" in exact.text
    assert '"n": 1' in exact.text_of("code")
    assert f"../results/{first}" in exact.links()


def test_snapshots_can_be_looked_at_one_by_one(server: Live) -> None:
    """All are listed, and the neighbours are one step away."""
    gate = new_id()
    job_id = server.submit("gated", gate=gate, partials=3)["job_id"]
    GATES.open(gate)
    server.wait(job_id)
    ids = [one["result_id"] for one in server.http.get(f"/analyze/jobs/{job_id}/results").json()["results"]]
    made = assert_page(server.http.get(f"/results/{ids[1]}?view=requested"))
    assert [one["value"] for one in made.all("li") if "value" in one] == ["4", "3", "2", "1"]
    steps = {one["rel"]: one["href"] for one in made.all("a") if "rel" in one}
    assert steps == {rel: f"../results/{ids[at]}?view=requested" for rel, at in (("prev", 0), ("next", 2))}


def test_json_is_shown_as_it_was_stored(server: Live) -> None:
    """In a region that can be scrolled with the keyboard."""
    job = server.wait(server.submit("echo", query="Zürich 9007199254740993")["job_id"])
    made = assert_page(server.http.get(f"/results/{job['result_id']}"))
    assert '"query": "Zürich 9007199254740993"' in made.text
    [region] = [one for one in made.all("pre") if one.get("aria-label") == "JSON"]
    assert (region["tabindex"], region["role"]) == ("0", "region")


def test_a_large_result_is_a_link(server: Live) -> None:
    """A page that would freeze its tab is not made."""
    job = server.wait(server.submit("echo", query="x" * MAX_JSON_BYTES)["job_id"])
    response = server.http.get(f"/results/{job['result_id']}")
    assert "too large to show as a whole" in assert_page(response).text
    assert len(response.content) < 20_000


def test_a_result_of_a_failed_job_says_so(server: Live) -> None:
    """The note stands above what was found before."""
    job = server.wait(server.submit("failing", how="permanent")["job_id"])
    made = assert_page(server.http.get(f"/results/{job['result_id']}"))
    assert "The job failed." in made.text
    assert "no such place" in made.text
    assert '"before": "permanent"' in made.text


def test_what_retention_took_is_gone_and_says_so(tmp_path: Path) -> None:
    """410 with the way to the job, which tells when; another org still sees nothing."""
    with live(tmp_path) as server:
        job = server.wait(server.submit("echo", query="Bern")["job_id"])

    async def clean(store: SqliteStore) -> None:
        await apply_retention(store, LONG_GONE)

    clock = SetClock(SystemClock().now())
    clock.pass_(2 * DAY)
    with_store(tmp_path / "store.db", clock, clean)
    with live(tmp_path) as server:
        address = f"/results/{job['result_id']}"
        made = assert_page(server.http.get(address), 410)
        assert "Result removed" in made.text_of("h1")
        assert f"../jobs/{job['job_id']}" in made.links()
        assert "Resultat gelöscht" in assert_page(server.http.get(f"{address}?lang=de"), 410).text
        assert_page(server.http.get(address, headers={"X-Org-Id": "org-b"}), 404)
        made = assert_page(server.http.get(f"/jobs/{job['job_id']}"))
        assert "The result was removed at the end of its retention time:" in made.text
        assert "The events were removed at the end of their retention time:" in made.text


def test_a_result_is_held_and_released_by_forms(server: Live) -> None:
    """Offered to those who may, told to all; both lead back to the page, which says so in either language."""
    job = server.wait(server.submit("echo", query="Bern")["job_id"])
    address = f"/results/{job['result_id']}"
    offered = assert_page(server.http.get(address))
    assert [form["action"] for form in offered.all("form") if "hold" in form["action"]] == [
        f"../results/{job['result_id']}/hold"
    ]
    done = server.http.post(f"{address}/hold", data={"reason": " audit <b> "})
    assert (done.status_code, done.headers["location"]) == (303, f"../../results/{job['result_id']}")
    held = assert_page(server.http.get(address))
    assert "On hold: retention does not remove this result." in held.text
    assert "audit <b>" in held.text
    assert "Vom Löschen ausgenommen" in assert_page(server.http.get(f"{address}?lang=de")).text
    assert server.http.post(f"{address}/release", data={"why": ""}).status_code == 303
    assert server.job(job["job_id"])["held_at"] is None
    assert "Held" not in assert_page(server.http.get(address)).text
    assert server.http.post("/results/nothing/hold", data={"reason": ""}).status_code == 404
