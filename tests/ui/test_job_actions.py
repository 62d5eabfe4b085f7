"""What a person does with a job from its page, over plain forms: done, refused with a reason, or not offered."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from langlauf import Job, PermanentError, TransientError
from langlauf.clock import new_id
from langlauf.domain.access import Scope
from tests.support.keys import OPERATOR, make_key
from tests.support.live import GATES, Live, live, sample_app
from tests.ui.html_page import HtmlPage, assert_page


def _running(server: Live, gate: str, **values: Any) -> str:
    job_id: str = server.submit("gated", gate=gate, **values)["job_id"]
    GATES.wait_until_reached(gate)
    return job_id


def _actions(made: HtmlPage) -> list[str]:
    return [form["action"] for form in made.all("form") if "/jobs/" in form["action"]]


def test_a_job_is_stopped_and_run_again_by_forms(server: Live) -> None:
    """Each leads on to the job it is about."""
    gate = new_id()
    job_id = _running(server, gate, partials=1)
    asked = assert_page(server.http.get(f"/jobs/{job_id}/cancel"))
    assert "Interim results up to v1 stay available." in asked.text
    assert _actions(asked) == [f"../../jobs/{job_id}/cancel"]
    done = server.http.post(f"/jobs/{job_id}/cancel", data={"reason": " wrong city "})
    assert (done.status_code, done.headers["location"]) == (303, f"../../jobs/{job_id}")
    assert server.wait(job_id)["cancel_reason"] == "wrong city"
    again = server.http.post(f"/jobs/{job_id}/retry", data={"resume": "yes"})
    assert again.status_code == 303
    new = again.headers["location"].rpartition("/")[2]
    GATES.open(gate)
    assert server.wait(new)["retry_of"] == job_id


def test_stopping_twice_or_too_late_is_no_mistake(server: Live) -> None:
    """The page of the job tells how it ended."""
    job = server.wait(server.submit("echo", query="Bern")["job_id"])
    address = f"/jobs/{job['job_id']}/cancel"
    assert server.http.get(address).headers["location"] == f"../../jobs/{job['job_id']}"
    assert server.http.post(address, data={"reason": ""}).status_code == 303
    assert server.job(job["job_id"])["status"] == "completed"


def test_what_cannot_be_done_is_told_calmly(server: Live) -> None:
    """Why, what next, and the way back; nothing of it is offered where it is known before."""
    gate = new_id()
    stubborn = server.submit("stubborn", gate=gate)["job_id"]
    GATES.wait_until_reached(gate)
    refused = assert_page(server.http.post(f"/jobs/{stubborn}/cancel", data={"reason": ""}), 409)
    assert "cannot be canceled" in refused.text_of("h1")
    assert f"../../jobs/{stubborn}" in refused.links()
    assert _actions(assert_page(server.http.get(f"/jobs/{stubborn}"))) == []
    early = assert_page(server.http.post(f"/jobs/{stubborn}/retry", data={"reason": ""}), 409)
    assert "not ended" in early.text_of("h1")
    GATES.open(gate)
    server.wait(stubborn)


def test_a_job_that_runs_already_is_shown_instead(server: Live) -> None:
    """The same input has not ended elsewhere: here is the way to it."""
    first, second = new_id(), new_id()
    done = _running(server, first)
    GATES.open(first)
    server.wait(done)
    body = {"analysis": "gated", "input": {"gate": second}}
    old = server.http.post("/analyze", json=body, headers={"Prefer": "respond-async"}).json()["job"]["job_id"]
    GATES.wait_until_reached(second)
    server.http.post(f"/analyze/jobs/{old}/cancel")
    server.wait(old)
    running = server.http.post("/analyze", json=body, headers={"Prefer": "respond-async"}).json()["job"]["job_id"]
    refused = assert_page(server.http.post(f"/jobs/{old}/retry", data={"reason": ""}), 409)
    assert f"../../jobs/{running}" in refused.links()
    GATES.open(second)
    server.wait(running)


def test_unknown_and_foreign_jobs_are_not_there(server: Live) -> None:
    """For forms as for pages."""
    job = server.wait(server.submit("echo", "org-a", query="Bern")["job_id"], "org-a")
    for job_id in (job["job_id"], new_id()):
        assert_page(server.http.get(f"/jobs/{job_id}/cancel"), 404)
        assert_page(server.http.post(f"/jobs/{job_id}/cancel", data={"reason": ""}), 404)
        assert_page(server.http.post(f"/jobs/{job_id}/retry", data={"reason": ""}), 404)


def test_only_what_the_reader_may_do_is_offered(tmp_path: Path) -> None:
    """A key that only reads sees no form, and one sent all the same is refused; so is one without its mark."""
    with live(tmp_path, API_AUTH_TOKEN=OPERATOR) as closed:
        reader = make_key(tmp_path / "store.db", "default-org", Scope.READ).text
        writer = make_key(tmp_path / "store.db", "default-org").text
        gate = new_id()
        headers = {"Authorization": f"Bearer {writer}", "Prefer": "respond-async"}
        body = {"analysis": "gated", "input": {"gate": gate}}
        job_id = closed.http.post("/analyze", json=body, headers=headers).json()["job"]["job_id"]
        GATES.wait_until_reached(gate)
        mine = {"Authorization": f"Bearer {reader}"}
        made = assert_page(closed.http.get(f"/jobs/{job_id}", headers=mine))
        assert _actions(made) == []
        assert not [link for link in made.links() if link.endswith("/cancel")]
        assert_page(closed.http.post(f"/jobs/{job_id}/cancel", data={"reason": ""}, headers=mine), 403)
        assert _actions(assert_page(closed.http.get(f"/jobs/{job_id}", headers=headers))) == [
            f"../jobs/{job_id}/cancel"
        ]
        _refuse_without_mark(closed, writer, job_id)
        GATES.open(gate)


def _refuse_without_mark(closed: Live, key: str, job_id: str) -> None:
    with httpx2.Client(base_url=closed.url, trust_env=False, timeout=60) as browser:
        form = assert_page(browser.get("/login"))
        mark = next(one["value"] for one in form.all("input") if one.get("name") == "csrf_token")
        browser.post("/login", data={"key": key, "csrf_token": mark}, headers={"Sec-Fetch-Site": "same-origin"})
        here = {"Sec-Fetch-Site": "same-origin"}
        assert_page(browser.post(f"/jobs/{job_id}/cancel", data={"csrf_token": "x"}, headers=here), 403)
        made = assert_page(browser.get(f"/jobs/{job_id}"))
        mark = next(one["value"] for one in made.all("input") if one.get("name") == "csrf_token")
        done = browser.post(f"/jobs/{job_id}/cancel", data={"csrf_token": mark}, headers=here)
        assert done.status_code == 303


def test_versions_are_pinned_by_the_address(server: Live) -> None:
    """One that exists is shown as it was; one that does not is not there."""
    gate = new_id()
    job_id = _running(server, gate, partials=9)
    made = assert_page(server.http.get(f"/jobs/{job_id}?v=2"))
    assert "This version is pinned. The newest is v9." in made.text
    assert '"n": 2' in made.text
    assert [link for link in made.links() if link.endswith("diff?from=1&to=2")]
    assert "?v=9" in made.links()
    assert_page(server.http.get(f"/jobs/{job_id}?v=77"), 404)
    assert_page(server.http.get(f"/jobs/{job_id}?v=x"), 400)
    GATES.open(gate)
    server.wait(job_id)


@pytest.mark.parametrize(
    ("sort", "shown", "hidden"), [("attempts", "Started", "Accepted"), ("decisions", "Accepted", "Started")]
)
def test_events_of_one_sort_are_shown_by_the_address(server: Live, sort: str, shown: str, hidden: str) -> None:
    """And nothing else of the log; a sort that there is not is a mistake."""
    job = server.wait(server.submit("echo", query="Bern")["job_id"])
    made = assert_page(server.http.get(f"/jobs/{job['job_id']}?event={sort}"))
    rows = made.text[made.text.index("Events, newest first") :].partition("Input")[0]
    assert shown in rows
    assert hidden not in rows
    assert_page(server.http.get(f"/jobs/{job['job_id']}?event=all-of-them"), 400)


def test_the_input_is_shown_without_secrets(server: Live) -> None:
    """In the input, in the heading and in the command."""
    job = server.wait(server.submit("echo", query="token=abcdef123456", intelligence_mode="Bern")["job_id"])
    made = assert_page(server.http.get(f"/jobs/{job['job_id']}"))
    heard = made.text.replace(job["job_id"], "")
    assert "token=[redacted]" in made.text
    assert "token" not in made.text_of("title")
    assert "curl -i -X POST" in made.text
    assert "abcdef123456" not in heard.partition("Result")[0]


@pytest.mark.parametrize(
    ("analysis", "values", "main", "kept"),
    [
        ("chunked", {"parts": 4, "fail_at": 2}, "Change the input and run again", "2 finished parts are kept"),
        ("chunked", {"parts": 4, "fail_at": 1}, "Change the input and run again", "1 finished part is kept"),
        ("failing", {"how": "permanent"}, "Change the input and run again", ""),
        ("failing", {"how": "transient"}, "Run again", ""),
        ("failing", {"how": "bug"}, "Run again", ""),
        ("failing", {"how": "unstorable"}, "Change the input and run again", ""),
        ("flaky", {}, "Resume", "1 finished part is kept"),
        ("mapped", {}, "Resume", "6 of 10 parts are kept: Resume does not compute them again."),
    ],
)
def test_the_main_action_is_the_right_next_step(
    retrying: Live, analysis: str, values: dict[str, Any], main: str, kept: str
) -> None:
    """Resume where parts are kept and the error may pass; run again where the input is not to blame; else change it."""
    job = retrying.wait(retrying.submit(analysis, **values)["job_id"])
    assert job["status"] == "failed"
    response = retrying.http.get(f"/jobs/{job['job_id']}")
    assert_page(response)
    text = response.text
    actions = text.partition('id="part-actions"')[2].partition("</section>")[0]
    assert re.findall(r'<a class="button" [^>]*>([^<]+)<|<button type="submit">([^<]+)<', actions) in (
        [(main, "")],
        [("", main)],
    )
    assert (">Resume<" in actions) == bool(kept)
    assert kept in text


@pytest.fixture(scope="module")
def retrying(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server with an analysis that fails for a passing reason after a part is done."""
    app = sample_app()

    @app.analysis(max_retries=0)
    async def flaky(job: Job) -> None:
        """Finishes a part, then cannot reach something."""
        await job.checkpoint("one", _one)
        raise TransientError("nothing answers")

    @app.analysis
    async def strict(job: Job, how: str) -> int:
        """Finishes a part, then refuses its input, or stumbles over it."""
        await job.checkpoint("one", _one)
        if how == "number":
            return int("12,5")
        raise PermanentError("no such place")

    @app.analysis(max_retries=0)
    async def mapped(job: Job) -> None:
        """Finishes some parts of a map, one after the other."""
        await job.map(_part, list(range(10)))

    settings = {"LANGLAUF_RETRY_BASE": "0.01", "LANGLAUF_MAP_PROCESSES": "1"}
    with live(tmp_path_factory.mktemp("retrying"), app, **settings) as running:
        yield running


def _one() -> int:
    return 1


def _part(number: int) -> int:
    if number == 6:
        raise TransientError("the seventh cannot be reached")
    return number


def test_a_bug_is_not_blamed_on_the_input(retrying: Live) -> None:
    """The page says where the cause is, and shows it to those who may see it."""
    job = retrying.wait(retrying.submit("failing", how="bug")["job_id"])
    page = assert_page(retrying.http.get(f"/jobs/{job['job_id']}"))
    assert "An unexpected error ended the job (internal)" in page.text
    assert "probably in the code of the analysis" in page.text
    assert "permanent" not in page.text
    assert "RuntimeError, raised in failing" in page.text


@pytest.mark.parametrize(
    ("how", "said", "resumes"),
    [
        ("number", "An unexpected error ended the job (validation_error). The cause is probably the input", True),
        ("refusal", "The analysis cannot work with this input (validation_error). This error is permanent.", False),
    ],
)
def test_only_a_refusal_blames_the_input_for_certain(retrying: Live, how: str, said: str, resumes: bool) -> None:
    """A bare ValueError may be a bug; where the input is refused, resuming is not offered: it could only fail again."""
    job = retrying.wait(retrying.submit("strict", how=how)["job_id"])
    assert (job["error_code"], job["kept_parts"]) == ("validation_error", 1)
    made = assert_page(retrying.http.get(f"/jobs/{job['job_id']}"))
    assert said in " ".join(made.text.split())
    assert ("1 finished part is kept" in made.text) is resumes
    form = assert_page(retrying.http.get(f"/?from={job['job_id']}"))
    assert ("1 finished part is kept" in form.text) is resumes


def test_what_is_kept_is_said_wherever_it_can_be_resumed(retrying: Live) -> None:
    """In the form of the next run, in German, and in the status, where a job that has kept nothing says null."""
    job = retrying.wait(retrying.submit("mapped")["job_id"])
    assert (job["kept_parts"], job["total_parts"]) == (6, 10)
    form = assert_page(retrying.http.get(f"/?from={job['job_id']}", headers={"Accept-Language": "de"}))
    assert "6 von 10 Teilen sind aufbewahrt" in form.text
    none = retrying.wait(retrying.submit("failing", how="permanent")["job_id"])
    assert (none["kept_parts"], none["total_parts"]) == (None, None)


def test_jobs_that_belong_together_lead_to_each_other(server: Live) -> None:
    """Under the title of both, with their states; their newest results are compared, each with its input."""
    first = server.wait(server.submit("failing", how="permanent")["job_id"])
    body = {"analysis": "failing", "input": {"how": "bug"}}
    mode = {"options": {"async_mode": {"requested": True, "based_on": first["job_id"]}}}
    second = server.wait(server.http.post("/analyze", json={**body, **mode}).json()["job"]["job_id"])
    third = server.http.post(f"/analyze/jobs/{first['job_id']}/retry").json()["job"]
    server.wait(third["job_id"])
    made = assert_page(server.http.get(f"/jobs/{first['job_id']}"))
    links = made.links()
    places = [links.index(f"../jobs/{job['job_id']}") for job in (second, third)]
    assert places == sorted(places)
    assert made.text.count("Run again as") == 2
    made = assert_page(server.http.get(f"/jobs/{second['job_id']}"))
    assert "Run again from" in made.text
    compare = next(link for link in made.links() if f"diff?with={first['result_id']}" in link)
    compared = assert_page(server.http.get(compare.removeprefix("..")))
    assert "Two runs compared" in compared.text_of("h1")
    assert "permanent" in compared.text
    german = assert_page(server.http.get(f"{compare.removeprefix('..')}&lang=de"))
    assert "Zwei Läufe im Vergleich" in german.text_of("h1")
    assert_page(server.http.get(f"/results/{first['result_id']}/diff?with={new_id()}"), 404)
    foreign = {"X-Org-Id": "org-b"}
    assert_page(server.http.get(compare.removeprefix(".."), headers=foreign), 404)


@pytest.fixture(scope="module")
def mailing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server that has a mail server, and sends nothing by itself."""
    settings = {"LANGLAUF_SMTP": "smtp://127.0.0.1:9?tls=none", "LANGLAUF_MAIL_FROM": "jobs@example.org"}
    with live(tmp_path_factory.mktemp("mailing"), LANGLAUF_DELIVERIES="0", **settings) as running:
        yield running


def test_an_address_is_given_to_a_running_job_by_a_form(mailing: Live) -> None:
    """The page names it masked from then on; what is no address is explained beside the field, and changes nothing."""
    gate = new_id()
    job_id = _running(mailing, gate)
    address = f"/jobs/{job_id}/notify"
    assert _actions(assert_page(mailing.http.get(address))) == [f"../../jobs/{job_id}/notify"]
    wrong = assert_page(mailing.http.post(address, data={"email": "anna@"}), 400)
    assert "Enter one e-mail address" in wrong.text
    assert ("input", "anna@") in [(tag, one.get("value")) for tag, one in wrong.elements]
    assert "An e-mail goes to" not in assert_page(mailing.http.get(f"/jobs/{job_id}")).text
    done = mailing.http.post(address, data={"email": " anna@mail.example "})
    assert (done.status_code, done.headers["location"]) == (303, f"../../jobs/{job_id}")
    shown = assert_page(mailing.http.get(f"/jobs/{job_id}"))
    assert "An e-mail goes to a…@mail.example when the job completes or fails." in shown.text
    german = assert_page(mailing.http.get(address, headers={"Accept-Language": "de"}))
    assert "Sie geht dann an diese Adresse statt an a…@mail.example." in german.text
    GATES.open(gate)
    mailing.wait(job_id)
    assert mailing.http.get(address).headers["location"] == f"../../jobs/{job_id}"
    late = assert_page(mailing.http.post(address, data={"email": "b@mail.example"}), 409)
    assert "The job has ended" in late.text
    assert "An e-mail goes to" not in assert_page(mailing.http.get(f"/jobs/{job_id}")).text


def test_without_a_mail_server_no_address_is_asked_for(server: Live) -> None:
    """The page of the job has no link to the form, and the form's page says why."""
    gate = new_id()
    job_id = _running(server, gate)
    assert f"jobs/{job_id}/notify" not in server.http.get(f"/jobs/{job_id}").text
    asked = assert_page(server.http.get(f"/jobs/{job_id}/notify"))
    assert "This server sends no e-mails." in asked.text
    assert _actions(asked) == []
    GATES.open(gate)
