"""Failures by cause: what differs only in values is one group, what differs in words is another."""

import pytest

from langlauf.domain.failure import FailedJob, counts_over_time, group_failures, message_pattern


def failure(job_id: str, message: str, *, code: str = "internal", analysis: str = "survey", at: int = 1) -> FailedJob:
    """A failed job."""
    return FailedJob(job_id, analysis, code, message, at, at + 5, repeated=job_id.startswith("again"))


@pytest.mark.parametrize(
    ("message", "shape"),
    [
        ("no such place", "no such place"),
        ("row 17 of 2,000 is bad", "row … of … is bad"),
        ("job 01a1e39e-dd6c-7661-a92c-df4973e3903b is gone", "job … is gone"),
        ("\"Bern\" and 'Basel' and `Chur` and «Genf»", "… and … and … and …"),
        ("can't open it: that isn't a file", "can't open it: that isn't a file"),
        ("GET https://upstream.test/a?b=c failed", "GET … failed"),
        ("cannot read /var/data/x.csv now", "cannot read … now"),
        ("at 2026-03-12T14:05:09Z\n  it   broke", "at … it broke"),
        ("either/or stays, and so does a-b", "either/or stays, and so does a-b"),
        ("", ""),
    ],
)
def test_a_pattern_keeps_the_words(message: str, shape: str) -> None:
    """Numbers, ids, quoted values, addresses and paths are folded; words are not."""
    assert message_pattern(message) == shape


def test_groups_are_by_analysis_code_and_pattern() -> None:
    """The largest first; the newest failure is the example, and those run again are not left."""
    found = [
        failure("d", "row 4 is bad", at=9),
        failure("again-c", "row 3 is bad", at=8),
        failure("b", "row 3 is bad", code="timeout", at=7),
        failure("a", "row 3 is bad", analysis="census", at=6),
        failure("e", "row is bad", at=5),
        failure("f", "row 1 is bad", at=4),
    ]
    groups = group_failures(found)
    assert [[one.job_id for one in group.failures] for group in groups] == [
        ["d", "again-c", "f"], ["b"], ["a"], ["e"],
    ]  # fmt: skip
    first = groups[0]
    assert (first.analysis, first.error_code, first.shape) == ("survey", "internal", "row … is bad")
    assert (first.example.job_id, first.first_at, first.last_at) == ("d", 9, 14)
    assert [one.job_id for one in first.left] == ["d", "f"]
    assert len({group.key for group in groups}) == 4
    assert [group.key for group in group_failures(reversed(found))] != []
    assert {group.key for group in group_failures(reversed(found))} == {group.key for group in groups}


def test_times_are_counted_in_equal_parts() -> None:
    """What lies outside counts at the ends."""
    assert counts_over_time([0, 9, 10, 39, 40, -5, 99], 0, 40, 4) == [3, 1, 0, 3]
    assert counts_over_time([], 0, 0, 2) == [0, 0]
