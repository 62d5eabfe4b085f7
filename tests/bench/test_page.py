"""The page of benchmarks: it is what the kept results make, and what it computes can be done by hand."""

import importlib
from pathlib import Path

import pytest

from bench import catalogue, page, results
from bench.catalogue import GROUPS, SECTIONS, select_sections
from bench.context import Context
from bench.environments import REQUIREMENTS
from bench.results import Measured, Subject


def measured(*subjects: Subject, notes: tuple[str, ...] = ()) -> Measured:
    """A section as it may have been measured."""
    return Measured(
        measured_at="2026-01-02T03:04:05Z", machine="2 cores", rounds=3, versions={"Python": "3"},
        subjects=list(subjects), notes=list(notes),
    )  # fmt: skip


def section_of(text: str, title: str) -> str:
    """The part of a page under a heading."""
    return text.partition(f"## {title}\n")[2].partition("\n## ")[0]


def test_the_page_is_what_the_results_make() -> None:
    """It is written by `python -m bench --page`, never by hand; what is written by hand is in bench/notes.md."""
    made = page.page(results.load(), page.NOTES.read_text("utf-8"))
    assert page.PAGE.read_text("utf-8") == made, "write it anew: .venv/bin/python -m bench --page"


def test_results_are_kept_as_they_are_written(tmp_path: Path) -> None:
    """Saved and loaded again they are the same, to the byte; sections stand in the order of the page."""
    file = tmp_path / "results.json"
    kept = {"http": measured(Subject(name="a", figures={"z": [1.0], "b": [2.0]})), "library": measured()}
    results.save(kept, file)
    assert results.load(file) == kept
    assert list(results.load(file)) == ["library", "http"]
    assert list(results.load(file)["http"].subjects[0].figures) == ["z", "b"]
    assert results.load(tmp_path / "none.json") == {}


def test_ratios_are_those_of_medians_to_the_best_peer() -> None:
    """The best of those that are named, whatever others reach; the chart has the same figures."""
    subjects = [
        Subject(name="Langlauf, SQLite", figures={"jobs_per_second": [900, 6_000, 1_500]}, on_disk="synced / synced"),
        Subject(name="Huey + Redis", figures={"jobs_per_second": [400, 600, 500]}),
        Subject(name="pgqueuer, batch 100", figures={"jobs_per_second": [100]}),
        Subject(name="bare prototype, SQLite", figures={"jobs_per_second": [3_000]}),
    ]
    made = section_of(page.page({"library": measured(*subjects)}, ""), SECTIONS["library"].title)
    assert "| Langlauf, SQLite | 1,500 | 3.00 | synced / synced |" in made
    assert "| pgqueuer, batch 100 | 100 | 0.20 |  |" in made
    assert f"bare prototype, SQLite  {'█' * 40} 3,000\n" in made
    assert f"Langlauf, SQLite        {'█' * 20} 1,500\n" in made
    assert "2026-01-02, 2 cores, 3 rounds; Python 3." in made


def test_a_section_of_stores_has_them_side_by_side() -> None:
    """A figure that one has not is left empty there, and notes follow."""
    subjects = [
        Subject(name="SQLite", figures={"cost, µs": [104.2], "share": [0.955]}),
        Subject(name="PostgreSQL", figures={"cost, µs": [1_250], "more": [12.34]}),
    ]
    made = section_of(page.page({"cost": measured(*subjects, notes=("A note.",) * 2)}, ""), SECTIONS["cost"].title)
    rows = [line for line in made.splitlines() if line.startswith("| ")]
    assert rows[2:] == ["| cost, µs | 104 | 1,250 |", "| share | 0.95 |  |", "| more |  | 12.3 |"]
    assert made.count("- A note.") == 1


def test_one_section_does_not_change_the_others() -> None:
    """What was not measured is said so, and what is measured again stands where it stood."""
    one = measured(Subject(name="SQLite", figures={"what": [1.0]}))
    before = page.page({"cost": one}, "notes")
    after = page.page({"cost": one, "growth": one}, "notes")
    for name, section in SECTIONS.items():
        same = section_of(before, section.title) == section_of(after, section.title)
        assert same is (name != "growth")
        assert ("Not measured yet." in section_of(after, section.title)) is (name not in ("cost", "growth"))


def test_sections_are_chosen_by_name_and_by_group() -> None:
    """In the order of the page, each once; a wrong name is told."""
    assert select_sections("polls,http,polls") == ["http", "polls"]
    assert select_sections("store") == list(GROUPS["store"])
    assert select_sections("all") == list(SECTIONS)
    with pytest.raises(ValueError, match="no section is called nothing"):
        select_sections("nothing")


def test_every_section_can_be_measured() -> None:
    """Its function is there, its services are known, and its environments have their requirements."""
    for section in SECTIONS.values():
        module, _, function = section.measure.partition(":")
        assert callable(getattr(importlib.import_module(module), function))
        assert set(section.services) <= {"postgres", "redis", "wrk"}
        assert {f"{name}.txt" for name in section.environments} <= {file.name for file in REQUIREMENTS.iterdir()}
        assert section.chart in {"", *(column.figure for column in section.columns)}


@pytest.mark.parametrize("file", sorted(REQUIREMENTS.iterdir()), ids=lambda file: file.stem)
def test_requirements_are_pinned_and_name_no_host(file: Path) -> None:
    """A line is a name and a version; where it comes from is the reader's own setting."""
    for line in file.read_text("utf-8").splitlines():
        name, _, version = line.partition("==")
        assert name, line
        assert version[:1].isdigit(), line
        assert "/" not in line, line


def test_what_is_missing_is_named_by_its_package() -> None:
    """A subject that needs it is left out with that line."""
    context = Context(folder="here", rounds=1, redis="redis://127.0.0.1:1/0")
    assert context.lacks(("redis",)) is None
    assert context.lacks(("postgres", "wrk")) == "install postgresql and wrk"
    assert (context.of_jobs(500), Context(folder="here", rounds=1, jobs=20).of_jobs(500)) == (500, 20)


def test_the_best_peers_are_measured() -> None:
    """Ratios name subjects that exist."""
    library = importlib.import_module("bench.sections.library")
    names = {peer.name for peer in (*library._TOGETHER, *library._APART, *library._PEERS)}
    stack = importlib.import_module("bench.stack")
    names |= {one.name for one in vars(stack).values() if isinstance(one, stack.Stack)}
    names.add(importlib.import_module("bench.sections.http")._BARE_STATUS.name)
    for section in catalogue.SECTIONS.values():
        assert section.ratio is None or set(section.ratio.against) <= names
