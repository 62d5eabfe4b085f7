"""The page of guarantees shows the scenarios that there are, and a whole run in which every promise was kept."""

import re

from tests.docs.pages import ROOT, read, rows, sections, words
from tests.faults.plan import SEED_NAME
from tests.faults.suite import SCENARIOS

PAGE = "docs/guarantees.md"


def _measured() -> list[list[str]]:
    return rows(sections(PAGE)["Measured"])


def test_every_scenario_is_explained() -> None:
    """The table has the scenarios of the harness, in their order, and no other."""
    documented = [words(cells[0])[0] for cells in rows(sections(PAGE)["How each is shown"])]
    assert documented == list(SCENARIOS)


def test_the_figures_are_those_of_a_whole_run() -> None:
    """At the full scale, with its seed, each scenario in it, and no promise broken."""
    heading = re.search(r"^seed (\d+), scale (\S+), ", sections(PAGE)["Measured"], re.MULTILINE)
    assert heading is not None
    assert heading[2] == "1"
    measured = _measured()
    assert list(dict.fromkeys(cells[0] for cells in measured)) == list(SCENARIOS)
    promised = [cells for cells in measured if cells[3]]
    assert len(promised) > 30
    assert {cells[4] for cells in promised} == {"yes"}


def test_the_figures_are_those_that_the_harness_prints() -> None:
    """Each is named in its code: a figure that was renamed or dropped is not left behind in the page."""
    folder = ROOT / "tests" / "faults"
    code = "".join(file.read_text("utf-8") for file in (*folder.glob("*.py"), *folder.glob("scenarios/*.py")))
    for scenario, figure, *_ in _measured():
        assert f'"{figure}"' in code, (scenario, figure)


def test_the_page_says_how_to_repeat_it() -> None:
    """The target of make, the command behind it and the name of the seed."""
    text = sections(PAGE)["Run it yourself"] + read(PAGE)
    for word in ("make faults", "python -m tests.faults", SEED_NAME):
        assert word in text, word
    assert re.search(r"^faults:.*\n\t.*python -m tests\.faults$", read("Makefile"), re.MULTILINE)
