"""The first page: what can be run, how to ask for it, and what the org asked for lately."""

import itertools
import shlex
from pathlib import Path

import msgspec

from langlauf import Langlauf
from langlauf.clock import new_id
from tests.support.live import GATES, Live, live, sample_app
from tests.ui.html_page import HtmlPage, assert_page


def command(made: HtmlPage) -> list[str]:
    """The command on the page, as a shell would take it apart."""
    text = made.text
    start = text.index("curl ")
    end = text.index("}'", start) + 2
    return shlex.split(text[start:end].replace("\\\n", " "))


def test_an_org_without_jobs_is_told_what_to_do(server: Live, org: str) -> None:
    """The empty list says whose it is and how to fill it."""
    made = assert_page(server.http.get("/", headers={"X-Org-Id": org}))
    assert f"{org} has no jobs yet." in made.text
    assert not made.all("progress")


def test_the_command_on_the_page_works(server: Live, org: str) -> None:
    """Taken as it stands, it starts a job of the default analysis for the same org."""
    words = command(assert_page(server.http.get("/", headers={"X-Org-Id": org})))
    assert words[:4] == ["curl", "-i", "-X", "POST"]
    address, body = words[4], words[words.index("-d") + 1]
    headers = dict(word.split(": ", 1) for before, word in itertools.pairwise(words) if before == "-H")
    response = server.http.post(address, content=body, headers=headers)
    assert response.status_code == 202, response.text
    job = response.json()["job"]
    assert (job["analysis"], job["org_id"]) == ("echo", org)
    assert assert_page(server.http.get("/", headers={"X-Org-Id": org})).links().count(f"./jobs/{job['job_id']}") == 1


def test_the_command_is_safe_to_paste(tmp_path: Path) -> None:
    """Whatever the address bar had as host stays one word of the shell."""
    with live(tmp_path, None, True) as server:
        made = assert_page(server.http.get("/", headers={"Host": "a'$(id)"}))
    assert command(made)[4] == "http://a'$(id)/analyze"


def test_jobs_are_listed_in_words_and_not_only_in_colour(server: Live, org: str) -> None:
    """Newest first, each with a shape, its state in words, its progress and when it was accepted."""
    gate = new_id()
    done = server.wait(server.submit("echo", org, query="Bern")["job_id"], org)
    server.submit("gated", org, gate=gate, partials=3)
    GATES.wait_until_reached(gate)
    response = server.http.get("/", headers={"X-Org-Id": org})
    made = assert_page(response)
    assert made.text.index("Interim result, still running") < made.text.index("Completed")
    assert [one["value"] for one in made.all("progress")] == ["30", "100"]
    assert len([one for one in made.all("svg") if one.get("class") == "shape"]) == 2
    assert done["queued_at"][:19] in [one["datetime"][:19] for one in made.all("time")]
    GATES.open(gate)


def test_the_list_holds_the_own_org_only(server: Live, org: str) -> None:
    """Nothing of another org is on the page."""
    job_id = server.submit("echo", org, query="Bern")["job_id"]
    assert job_id in server.http.get("/", headers={"X-Org-Id": org}).text
    assert job_id not in server.http.get("/", headers={"X-Org-Id": new_id()}).text


def test_a_long_list_is_cut_and_says_so(server: Live, org: str) -> None:
    """Ten rows, and where the others are."""
    for number in range(11):
        server.submit("echo", org, query=f"{number}")
    made = assert_page(server.http.get("/", headers={"X-Org-Id": org}))
    assert len(made.all("progress")) == 10
    assert made.links().count("./jobs") == 3  # in the head, below the list, and for the shortcut
    assert "The newest 10 are shown." in made.text


def test_every_analysis_is_there_with_its_parameters(server: Live) -> None:
    """Name, type, default and whether it must be given."""
    first = assert_page(server.http.get("/"))
    for analysis in server.app.registry:
        assert f"./?analysis={analysis.name}" in first.links()
        made = assert_page(server.http.get(f"/?analysis={analysis.name}"))
        assert f"New job: {analysis.title}" in made.text_of("h2")
        assert all(name in made.text_of("code") for name in analysis.input_type.__struct_fields__)
    assert '"basic"' in first.text_of("code")
    assert "required" in first.text_of("em")
    assert "Return its input." in first.text


def test_an_application_without_analyses_says_so(tmp_path: Path) -> None:
    """No command that could not work."""
    with live(tmp_path, Langlauf()) as empty:
        made = assert_page(empty.http.get("/"))
        assert "No analysis is registered on this server." in made.text
        assert "curl" not in made.text


def test_the_command_names_the_public_address(tmp_path: Path) -> None:
    """Behind a proxy the shell gets the address that people reach."""
    with live(tmp_path, sample_app(), LANGLAUF_PUBLIC_URL="https://jobs.example/api/") as proxied:
        made = HtmlPage(proxied.http.get("/").text)
        assert command(made)[4] == "https://jobs.example/api/analyze"
        assert msgspec.json.decode(command(made)[-1]) == {"query": "example"}
