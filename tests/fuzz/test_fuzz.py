"""A short share of the long run: every operation, with what its description allows and what it does not."""

from pathlib import Path

from tests.fuzz.runner import fuzz, lines

SEED = 20_260_302


def test_the_server_answers_as_its_document_says(tmp_path: Path) -> None:
    """No server error, no undescribed answer, no bad input accepted, no good input refused, every error a problem."""
    report = fuzz(tmp_path, cases=1, seed=SEED, per_operation=6, edges=False)
    told = "\n".join(lines(report))
    print(told)
    assert (report.findings, report.errors, report.server_errors) == ({}, [], 0), told
    assert report.by_phase["fuzzing"] > 60
    assert report.by_phase["stateful"] > 0
    assert {200, 202, 400, 401, 404} <= set(report.by_status)
