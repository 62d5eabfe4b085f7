"""Starting a job from the page: what is sent becomes a job, once; what is wrong stands beside its entry."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import httpx2
import msgspec
import pytest

from langlauf import Job, Langlauf
from langlauf.clock import new_id
from langlauf.domain.access import Scope
from tests.support.keys import make_key
from tests.support.live import GATES, Live, live, sample_app
from tests.ui.forms import FROM_HERE, fill, form_fields, send
from tests.ui.html_page import HtmlPage, assert_page


class Stop(msgspec.Struct):
    """A record with two fields."""

    name: str
    minutes: int


def form_app() -> Langlauf:
    """The sample analyses, and one with entries of many kinds."""
    app = sample_app()

    @app.analysis(duplicates=True)
    async def survey(
        job: Job,
        region: Annotated[str, msgspec.Meta(min_length=2, max_length=20, description="A `region`.", examples=["Bern"])],
        years: Annotated[int, msgspec.Meta(ge=1, le=9)] = 3,
        mode: Literal["basic", "deep"] = "basic",
        strict: bool = True,
        codes: list[int] | None = None,
        text: Annotated[str, msgspec.Meta(max_length=5_000)] = "",
        api_token: str = "",
    ) -> dict[str, Any]:
        """Reads a region."""
        return {"region": region, "years": years, "mode": mode, "strict": strict, "codes": codes, "text": text}

    @app.analysis(duplicates=True)
    async def route(job: Job, stops: list[Stop]) -> Any:
        return msgspec.to_builtins(stops)

    @app.analysis
    async def bare(job: Job) -> dict[str, Any]:
        return {}

    return app


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server with them."""
    with live(tmp_path_factory.mktemp("starting"), form_app(), LANGLAUF_MAX_RUNNING="16") as running:
        yield running


def started(response: httpx2.Response) -> str:
    """The id of the job that a form led to."""
    assert response.status_code == 303, response.text
    assert response.headers["cache-control"] == "no-store"
    address: str = response.headers["location"]
    assert address.startswith("./jobs/")
    return address.removeprefix("./jobs/").partition("?")[0]


def refused(response: httpx2.Response, status: int = 400) -> HtmlPage:
    """The form again, with the focus on what is wrong."""
    made = assert_page(response, status)
    [summary] = [one for _, one in made.elements if one.get("id") == "errors"]
    assert (summary["role"], summary["tabindex"], "autofocus" in summary) == ("alert", "-1", True)
    return made


def test_the_form_starts_a_job(server: Live, org: str) -> None:
    """With defaults filled in, options taken over, and the page of the job as the answer."""
    data = fill(server, "/?analysis=survey", region="Zürich", codes="4\r\n5", text="one\r\ntwo")
    data |= {"option.timeout_seconds": "90", "option.priority_class": '"expedite"', "option.max_retries": "1"}
    job = server.wait(started(send(server, data, {"X-Org-Id": org})), org)
    expected = {"region": "Zürich", "years": 3, "mode": "basic", "strict": True, "codes": [4, 5], "text": "one\ntwo"}
    assert job["result"] == expected
    assert (job["timeout_seconds"], job["priority_class"], job["max_retries"]) == (90, "expedite", 1)


def test_a_job_can_start_later(server: Live, org: str) -> None:
    """Its page says when, in both languages; a time that is none stands beside its entry."""
    data = fill(server, "/?analysis=survey", {"X-Org-Id": org}, region="Bern") | {"option.delay_seconds": "2h"}
    job_id = started(send(server, data, {"X-Org-Id": org}))
    job = server.job(job_id, org)
    assert (job["status"], job["phase"]) == ("queued", "scheduled")
    for language, text in (("en", "Scheduled for"), ("de", "Geplant für")):
        made = assert_page(server.http.get(f"/jobs/{job_id}", headers={"X-Org-Id": org, "Accept-Language": language}))
        assert text in made.text
        assert any(one.get("datetime", "")[:19] == job["run_at"][:19] for one in made.all("time"))
    wrong = refused(send(server, data | {"option.delay_seconds": "", "option.run_at": "tomorrow"}))
    assert "#option.run_at" in wrong.links()
    both = send(server, data | {"option.run_at": "2096-01-31T06:00"}, {"Accept-Language": "de"})
    assert "eine Dauer oder eine Zeit" in refused(both).text


def test_a_job_can_be_given_a_latest_start(server: Live, org: str) -> None:
    """Its page says it; a time that is past, or before the start, stands beside its entry, in both languages."""
    data = fill(server, "/?analysis=survey", {"X-Org-Id": org}, region="Bern") | {"option.allow_duplicate": "on"}
    times = {"option.run_at": "2096-07-01T06:00", "option.start_by": "2096-07-01T08:00", "zone": "America/New_York"}
    job_id = started(send(server, data | times, {"X-Org-Id": org}))
    assert server.job(job_id, org)["start_by"] == "2096-07-01T12:00:00Z"
    page = assert_page(server.http.get(f"/jobs/{job_id}", headers={"X-Org-Id": org}))
    assert any(one.get("datetime", "")[:19] == "2096-07-01T12:00:00" for one in page.all("time"))
    for wrong in ("2020-01-01T00:00", "2096-07-01T05:00"):
        answer = refused(send(server, data | times | {"option.start_by": wrong}, {"Accept-Language": "de"}))
        assert "#option.start_by" in answer.links()
        assert "Eine Zeit in der Zukunft angeben, die nach dem Start liegt." in answer.text
        assert form_fields(answer)["option.start_by"] == wrong


def test_a_start_is_in_the_zone_of_the_reader(server: Live, org: str) -> None:
    """A script names the zone; without one it is that of the server, as the page says. An offset of its own stays."""
    data = fill(server, "/?analysis=survey", {"X-Org-Id": org}) | {"option.allow_duplicate": "on"}
    local = datetime.fromisoformat("2096-07-01T06:00")
    for given, zone, expected in (
        ("2096-07-01T06:00", "America/New_York", "2096-07-01T10:00:00Z"),
        ("2096-07-01T06:00", "", f"{local.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"),
        ("2096-07-01T06:00+05:00", "America/New_York", "2096-07-01T01:00:00Z"),
    ):
        values = {"in.region": "Bern", "option.run_at": given, "zone": zone}
        job_id = started(send(server, data | values, {"X-Org-Id": org}))
        assert server.job(job_id, org)["run_at"] == expected
    wrong = {"in.region": "Bern", "option.run_at": "2096-07-01T06:00", "zone": "Mars/Olympus"}
    assert "#option.run_at" in refused(send(server, data | wrong)).links()


def test_an_unticked_box_is_no(server: Live) -> None:
    """A browser leaves it out."""
    data = fill(server, "/?analysis=survey", region="Bern")
    del data["in.strict"]
    assert server.wait(started(send(server, data)))["result"]["strict"] is False


def test_an_analysis_without_parameters_is_one_button(server: Live) -> None:
    """And says so."""
    made = assert_page(server.http.get("/?analysis=bare"))
    assert "No parameters." in made.text
    server.wait(started(send(server, form_fields(made))))


def test_the_example_starts_with_one_click(server: Live) -> None:
    """What the field shows in grey is sent where it was left empty; what was filled in stays."""
    made = assert_page(server.http.get("/?analysis=survey"))
    assert "Run the example: Bern" in made.text
    empty = {name: text for name, text in form_fields(made).items() if name != "in.region"}
    assert server.wait(started(send(server, empty | {"example": "yes"})))["result"]["region"] == "Bern"
    data = fill(server, "/?analysis=survey", region="Basel") | {"example": "yes"}
    assert server.wait(started(send(server, data)))["result"]["region"] == "Basel"


def test_records_have_rows(server: Live, org: str) -> None:
    """Rows can be added without a script, and a retry fills them in again."""
    data = fill(server, "/?analysis=route") | {"in.stops.0.name": "A", "in.stops.0.minutes": "4"}
    more = assert_page(send(server, data | {"rows": "in.stops"}))
    kept = form_fields(more)
    assert kept["in.stops.0.name"] == "A"
    assert "in.stops.3.name" in kept
    made = refused(send(server, kept | {"in.stops.3.name": "B"}))
    assert "#in.stops.3.minutes" in made.links()
    job = started(send(server, kept | {"in.stops.3.name": "B", "in.stops.3.minutes": "5"}))
    assert server.wait(job)["result"] == [{"name": "A", "minutes": 4}, {"name": "B", "minutes": 5}]
    again = form_fields(assert_page(server.http.get(f"/?from={job}")))
    assert (again["in.stops.1.name"], again["in.stops.1.minutes"]) == ("B", "5")


def test_every_error_stands_beside_its_entry(server: Live) -> None:
    """Named in the summary with a link, described at the entry; what was filled in is kept, and nothing was started."""
    data = fill(server, "/?analysis=survey", region="B", years="12", mode='"other"', codes="x", text="kept <b>")
    made = refused(send(server, data))
    fields = {one["id"]: one for tag, one in made.elements if tag in ("input", "select", "textarea") and "id" in one}
    for name in ("region", "years", "mode", "codes"):
        field = fields[f"in.{name}"]
        assert field["aria-invalid"] == "true"
        assert f"error-in.{name}" in field["aria-describedby"].split()
        assert f"#in.{name}" in made.links()
    assert "aria-invalid" not in fields["in.text"]
    kept = form_fields(made)
    assert (kept["in.region"], kept["in.years"], kept["in.codes"]) == ("B", "12", "x")
    assert kept["in.text"] == "kept <b>"
    assert kept["key"] == data["key"]
    assert made.text_of("title").startswith("Not started: ")


@pytest.mark.parametrize(
    ("field", "text", "sentence"),
    [
        ("option.timeout_seconds", "soon", "Enter seconds, or a time such as 30m."),
        ("option.max_retries", "many", "Enter a whole number"),
        ("option.max_retries", "101", "The value must be 100 or less."),
        ("option.priority_class", '"first"', "Choose one of these: default, expedite."),
    ],
)
def test_a_error_of_an_option_stands_beside_it(server: Live, field: str, text: str, sentence: str) -> None:
    """And the part with the options is open."""
    made = refused(send(server, fill(server, "/?analysis=survey", region="Bern") | {field: text}))
    assert f"#{field}" in made.links()
    assert sentence in made.text
    assert "open" in next(one for one in made.all("details") if one.get("class") == "more")


def test_what_no_store_keeps_is_told_at_its_entry(server: Live) -> None:
    """The check of the service, not of the form."""
    made = refused(send(server, fill(server, "/?analysis=survey", region="Be\x00rn")))
    assert "#in.region" in made.links()
    assert "NUL" in made.text


def test_errors_are_told_in_german(server: Live) -> None:
    """As everything is."""
    data = fill(server, "/?analysis=survey", region="B")
    made = refused(send(server, data, {"Accept-Language": "de"}))
    assert "Zu kurz: Es braucht mindestens 2 Zeichen." in made.text


def test_two_clicks_are_one_job(server: Live, org: str) -> None:
    """The same form with the same values is one wish; with others, or from a new page, it is another."""
    headers = {"X-Org-Id": org}
    data = fill(server, "/?analysis=survey", headers, region="Bern")
    first, second = (started(send(server, data, headers)) for _ in range(2))
    assert first == second
    assert started(send(server, data | {"in.region": "Basel"}, headers)) != first
    assert started(send(server, fill(server, "/?analysis=survey", headers, region="Bern"), headers)) != first
    assert started(send(server, data | {"key": "made up"}, headers)) != first


def test_the_same_job_is_not_started_twice(server: Live, org: str) -> None:
    """The page says so and leads to it; the box that allows it is in sight, and works."""
    gate, headers = new_id(), {"X-Org-Id": org}
    first = started(send(server, fill(server, "/?analysis=gated", headers, gate=gate), headers))
    response = send(server, fill(server, "/?analysis=gated", headers, gate=gate), headers)
    made = refused(response, 409)
    assert f"./jobs/{first}" in made.links()
    assert "The same job has not ended yet." in made.text
    assert "open" in next(one for one in made.all("details") if one.get("class") == "more")
    again = started(send(server, form_fields(made) | {"option.allow_duplicate": "on"}, headers))
    assert again != first
    GATES.open(gate)
    assert [server.wait(one, org)["status"] for one in (first, again)] == ["completed"] * 2


def test_a_full_queue_keeps_what_was_filled_in(tmp_path: Path) -> None:
    """429, when to come back, and the form as it was."""
    with live(tmp_path, form_app(), LANGLAUF_MAX_WAITING_PER_ORG="1", LANGLAUF_MAX_RUNNING="1") as small:
        gate = new_id()
        small.submit("gated", gate=gate)
        GATES.wait_until_reached(gate)
        small.submit("echo", query="waits")
        response = send(small, fill(small, "/?analysis=survey", region="Bern"))
        made = refused(response, 429)
        assert int(response.headers["retry-after"]) > 0
        assert form_fields(made)["in.region"] == "Bern"
        assert "Too many jobs are waiting" in made.text
        GATES.open(gate)


def test_a_form_too_large_is_refused(tmp_path: Path) -> None:
    """By the limit of the API."""
    with live(tmp_path, form_app(), LANGLAUF_MAX_BODY="2000") as small:
        response = send(small, fill(small, "/?analysis=survey", region="Bern", text="x" * 3_000))
        assert "The request body is too large" in assert_page(response, 413).text_of("h1")


def test_a_form_is_filled_from_an_earlier_job(server: Live, org: str) -> None:
    """All but what looks like a secret, which is said."""
    headers = {"X-Org-Id": org}
    values = {"region": "Bern", "years": 5, "codes": [1, 2], "strict": False, "api_token": "xyzzy"}
    job = server.wait(server.submit("survey", org, **values)["job_id"], org)
    made = assert_page(server.http.get(f"/?from={job['job_id']}", headers=headers))
    filled = form_fields(made)
    assert (filled["in.region"], filled["in.years"], filled["in.codes"]) == ("Bern", "5", "1\n2")
    assert "in.strict" not in filled
    assert filled["in.api_token"] == ""
    assert "xyzzy" not in made.text
    assert "Values that look like secrets are not shown" in made.text
    again = server.wait(started(send(server, filled, headers)), org)
    assert (again["result"]["years"], again["result"]["codes"], again["retry_of"]) == (5, [1, 2], None)
    assert again["based_on"] == job["job_id"]
    wrong = assert_page(send(server, {**filled, "in.years": "x"}, headers), 400)
    assert form_fields(wrong)["based_on"] == job["job_id"]


def test_a_job_that_stopped_can_be_resumed(server: Live, org: str) -> None:
    """As a new job that repeats it; twice pressed it is one. One that completed, or kept nothing, is not resumed."""
    headers = {"X-Org-Id": org}
    job = server.wait(server.submit("chunked", org, parts=3, fail_at=2)["job_id"], org)
    made = assert_page(server.http.get(f"/?from={job['job_id']}", headers=headers))
    data = {one["name"]: one["value"] for one in made.all("input") if one.get("name") in ("key", "resume")}
    first, second = (started(send(server, data, headers)) for _ in range(2))
    assert first == second
    assert server.wait(first, org)["retry_of"] == job["job_id"]
    done = server.wait(server.submit("echo", org, query="x")["job_id"], org)
    empty = server.wait(server.submit("chunked", org, parts=3, fail_at=0)["job_id"], org)
    for job_id in (done["job_id"], empty["job_id"]):
        made = assert_page(server.http.get(f"/?from={job_id}", headers=headers))
        assert [one for one in made.all("input") if one.get("name") == "resume"] == []


def test_a_job_of_another_org_fills_nothing(server: Live, org: str) -> None:
    """It is not there, as one that never was; neither to be resumed."""
    job = server.wait(server.submit("chunked", org, parts=1, fail_at=0)["job_id"], org)
    same = {"X-Org-Id": new_id(), "X-Request-Id": "same"}
    texts = []
    for job_id in (job["job_id"], new_id()):
        response = server.http.get(f"/?from={job_id}", headers=same)
        texts.append(assert_page(response, 404).text)
        assert_page(send(server, {"resume": job_id, "key": ""}, same), 404)
    assert texts[0] == texts[1]
    assert_page(server.http.get("/?analysis=nobody"), 404)


def test_whoever_may_not_start_is_not_offered_it(tmp_path: Path) -> None:
    """A key that reads sees the page without the form, and a form it sends is refused."""
    store = tmp_path / "store.db"
    reader = make_key(store, "org-a", Scope.READ).text
    with live(tmp_path, form_app()) as closed:
        headers = {"Authorization": f"Bearer {reader}"}
        made = assert_page(closed.http.get("/", headers=headers))
        assert "allows reading jobs, but not starting them" in made.text
        assert not [one for one in made.all("form") if one.get("class") == "start"]
        assert_page(send(closed, {"analysis": "echo", "in.query": "x"}, headers), 403)


def test_a_form_of_another_site_starts_nothing(server: Live, org: str) -> None:
    """A browser says where it comes from."""
    data = fill(server, "/?analysis=survey", region="Bern")
    for site in ("cross-site", "same-site"):
        response = server.http.post("/", data=data, headers={**FROM_HERE, "Sec-Fetch-Site": site, "X-Org-Id": org})
        assert_page(response, 403)
    assert server.http.get("/analyze/jobs", headers={"X-Org-Id": org}).json()["jobs"] == []


def test_a_signed_in_browser_needs_the_mark_of_its_session(tmp_path: Path) -> None:
    """Without it, or with another's, nothing is started; with it the job is the session's org's."""
    key = make_key(tmp_path / "store.db", "org-a").text
    with (
        live(tmp_path, form_app()) as closed,
        httpx2.Client(base_url=closed.url, trust_env=False, timeout=60) as browser,
    ):
        browser.headers.update(FROM_HERE)
        login = assert_page(browser.get("/login"))
        marks = {one["name"]: one["value"] for one in login.all("input") if one.get("name") in ("csrf_token", "next")}
        assert browser.post("/login", data={**marks, "key": key, "org": ""}).status_code == 303
        data = form_fields(assert_page(browser.get("/?analysis=survey"))) | {"in.region": "Bern"}
        assert data["csrf_token"]
        for mark in ("", "wrong"):
            assert_page(browser.post("/", data=data | {"csrf_token": mark}), 403)
        job_id = started(browser.post("/", data=data))
        found = closed.http.get(f"/analyze/jobs/{job_id}", headers={"Authorization": f"Bearer {key}"}).json()
        assert found["job"]["org_id"] == "org-a"


def test_the_language_of_the_address_is_kept(server: Live) -> None:
    """From the form to the page of the job."""
    data = fill(server, "/?analysis=survey&lang=de", region="Bern")
    response = server.http.post("/?lang=de", data=data, headers=FROM_HERE, follow_redirects=False)
    assert response.headers["location"].endswith("?lang=de")
