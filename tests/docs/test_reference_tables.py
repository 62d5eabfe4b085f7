"""The tables of the reference pages are those that the code makes."""

from pathlib import Path

import pytest

from langlauf.domain.event import EventType
from langlauf.limits import LIMITS
from langlauf.problems import TITLES
from langlauf.settings import GROUPS
from langlauf.telemetry.log import LogEvent
from langlauf.telemetry.metrics import INSTRUMENTS
from tests.docs import reference_tables
from tests.docs.pages import read, rows, words
from tests.docs.reference_tables import METRIC_SECTIONS, PAGES, rewrite, table_under


@pytest.mark.parametrize("page", PAGES)
def test_the_tables_follow_from_the_code(page: str) -> None:
    """Settings, flags, metrics, error codes, events, fields, log lines and checks: each is there once, as it is."""
    assert rewrite(page) == read(page), "run python -m tests.docs.reference_tables"


@pytest.mark.parametrize(
    ("page", "heading", "column", "known"),
    [
        *(("docs/settings.md", group, 0, [one.environment for one in rows]) for group, rows in GROUPS.items()),
        ("docs/settings.md", "Limits", 0, [one.name for one in LIMITS]),
        ("docs/http_api.md", "Errors", 1, list(TITLES)),
        ("docs/lifecycle.md", "Events", 0, list(EventType)),
        ("docs/operations.md", "Log", 0, list(LogEvent)),
    ],
)
def test_every_name_is_in_its_table(page: str, heading: str, column: int, known: list[str]) -> None:
    """The names of the code and those of the page are the same."""
    listed = {word for cells in table_under(page, heading) for word in words(cells[column])}
    assert set(known) <= listed


def test_every_metric_has_a_meaning() -> None:
    """All are listed, and nearly each says what to do when it looks bad."""
    table = [cells for heading in METRIC_SECTIONS for cells in table_under("docs/metrics.md", heading)]
    assert table == rows(read("docs/metrics.md"))
    assert {one.name for one in INSTRUMENTS} <= {words(cells[0])[0] for cells in table}
    assert all(len(cells) == 5 and cells[3] for cells in table)
    assert sum(not cells[4] for cells in table) <= 3


def test_every_error_has_its_status_and_cause() -> None:
    """A row that the command added is filled in by hand."""
    assert all(cells[0] and cells[2] for cells in table_under("docs/http_api.md", "Errors"))
    assert all(cells[1] for cells in table_under("docs/lifecycle.md", "Events"))


def test_a_page_that_lags_behind_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing row comes back, a made-up one goes, and the words around the table stay."""
    folder = tmp_path / "docs"
    folder.mkdir()
    right = read("docs/settings.md")
    lines = right.splitlines(keepends=True)
    first = next(index for index, line in enumerate(lines) if line.startswith("| `LANGLAUF_HOST`"))
    lines[first] = "| `LANGLAUF_MADE_UP` | `--made-up` | `1` | number | Nothing. |\n"
    (folder / "settings.md").write_text("".join(lines), "utf-8")
    monkeypatch.setattr(reference_tables, "read", lambda page: _read(tmp_path, page))
    assert rewrite("docs/settings.md") == right


def _read(folder: Path, page: str) -> str:
    file = folder / page
    return file.read_text("utf-8") if file.exists() else read(page)
