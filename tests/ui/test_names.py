"""Jobs by name: the title of the analysis and the label of the job, on every page where people look for one."""

from tests.support.live import Live
from tests.ui.test_lists import ended, listed


def test_title_and_label_stand_in_lists_inbox_and_titles_of_pages(server: Live, org: str) -> None:
    """In the language of the page; the id is still there."""
    job = ended(server, org, "named", place="Chur", code="7000")
    for path in ("/jobs", "/", "/inbox"):
        assert "Look up a place" in listed(server, org, path).text, path
        assert "Chur (7000)" in listed(server, org, path).text, path
        assert "Einen Ort suchen" in listed(server, org, f"{path}?lang=de").text, path
    for path in (f"/jobs/{job['job_id']}", f"/results/{job['result_id']}"):
        made = listed(server, org, path)
        assert "Look up a place" in made.text_of("title"), path
        assert "Chur (7000)" in made.text_of("title"), path


def test_an_analysis_without_a_title_is_called_by_its_name(server: Live, org: str) -> None:
    """And its job by a text of its input."""
    job = ended(server, org, "echo", query="Bern")
    assert "echo · Bern" in listed(server, org, f"/jobs/{job['job_id']}").text_of("title")
