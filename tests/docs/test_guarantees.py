"""The pages of promises show the scenarios that there are, and a whole run in which every promise was kept."""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import pytest

from tests.abuse.suite import BY_HAND
from tests.abuse.suite import SCENARIOS as ABUSE
from tests.docs.pages import ROOT, read, rows, sections
from tests.faults.suite import SCENARIOS as FAULTS
from tests.support.tiers import SEED_NAME

#: Scenarios that are in no whole run yet: one leaves this list when the page has its figures.
UNMEASURED = frozenset({"hostile"})


class Page(NamedTuple):
    """A page, and the harness it tells of."""

    path: str
    command: str
    scenarios: Iterable[str]
    least_promises: int

    def measured(self) -> list[list[str]]:
        """The rows of the table of figures."""
        return rows(sections(self.path)["Measured"])


PAGES: Mapping[str, Page] = {
    "faults": Page("docs/guarantees.md", "faults", FAULTS, 30),
    "abuse": Page("docs/abuse.md", "abuse", {**ABUSE, **BY_HAND}, 20),
}


@pytest.fixture(params=list(PAGES))
def page(request: pytest.FixtureRequest) -> Page:
    """Each of them."""
    return PAGES[request.param]


def test_every_scenario_is_explained(page: Page) -> None:
    """The list has the scenarios of the harness, in their order, and no other."""
    documented = re.findall(r"^- `(\w+)`: ", sections(page.path)["How each is tested"], re.MULTILINE)
    assert documented == list(page.scenarios)


def test_the_figures_are_those_of_a_whole_run(page: Page) -> None:
    """At the full scale, with its seed, each scenario in it, and no promise broken."""
    heading = re.search(r"^seed (\d+), scale (\S+), ", sections(page.path)["Measured"], re.MULTILINE)
    assert heading is not None
    assert heading[2] == "1"
    measured = page.measured()
    assert list(dict.fromkeys(cells[0] for cells in measured)) == [
        name for name in page.scenarios if name not in UNMEASURED
    ]
    promised = [cells for cells in measured if cells[3]]
    assert len(promised) > page.least_promises
    assert {cells[4] for cells in promised} == {"yes"}


def test_the_figures_are_those_that_the_harness_prints(page: Page) -> None:
    """Each is named in its code: a figure that was renamed or dropped is not left behind in the page."""
    folder = ROOT / "tests" / page.command
    code = "".join(file.read_text("utf-8") for file in (*folder.glob("*.py"), *folder.glob("scenarios/*.py")))
    for scenario, figure, *_ in page.measured():
        _, drawn, rest = figure.partition(": ")  # a figure for each of something begins with its name
        assert f'"{figure}"' in code or (drawn and f': {rest}"' in code), (scenario, figure)


def test_the_page_says_how_to_repeat_it(page: Page) -> None:
    """The target of make, the command behind it and the name of the seed."""
    for word in (f"make {page.command}", f"python -m tests.{page.command}", SEED_NAME):
        assert word in read(page.path), word
    target = rf"^{page.command}:.*\n\t.*python -m tests\.{page.command}$"
    assert re.search(target, read("Makefile"), re.MULTILINE)
