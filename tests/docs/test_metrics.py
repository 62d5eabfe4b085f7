"""The page of metrics has every metric of the registry with its type and labels, and none besides."""

from langlauf.telemetry.metrics import INSTRUMENTS, process_registry
from tests.docs.pages import read, rows, words


def test_the_page_and_the_registry_are_the_same() -> None:
    """Both ways: a metric without a word about it, and a word about none, are found here."""
    documented = {
        words(cells[0])[0]: (cells[1].partition(",")[0], words(cells[2])) for cells in rows(read("docs/metrics.md"))
    }
    ours = {meter.name: (str(meter.kind), list(meter.labels)) for meter in INSTRUMENTS}
    process: dict[str, tuple[str, list[str]]] = {
        f"{family.name}_total" if family.type == "counter" else family.name: (family.type, [])
        for family in process_registry().collect()
        if family.name.startswith("process_")
    }
    assert len(process) >= 5
    assert documented == {**ours, **process}


def test_every_metric_has_a_meaning() -> None:
    """And nearly each says what to do when it looks bad."""
    table = rows(read("docs/metrics.md"))
    assert all(len(cells) == 5 and cells[3] for cells in table)
    assert sum(not cells[4] for cells in table) <= 3
