"""The list of what is long names tests that there are."""

import pytest

from tests.long import TEST_IDS, is_long, unused


@pytest.mark.parametrize(
    ("test_id", "long"),
    [
        ("tests/fuzz/test_fuzz.py::test_anything", True),
        ("tests/http/test_submit.py::test_x[postgres]", True),
        ("tests/http/test_submit.py::test_x[sqlite-postgres-a]", True),
        ("tests/http/test_submit.py::test_x[sqlite]", False),
        ("tests/postgres/test_pool.py::test_x[postgres]", False),
        ("tests/store_contract/test_record.py::test_x[blobs-2]", True),
    ],
)
def test_paths_and_parameters_are_matched(test_id: str, long: bool) -> None:
    """Whole parameters below the path, not parts of them."""
    assert is_long(test_id) is long


def test_every_line_names_a_test(request: pytest.FixtureRequest) -> None:
    """A test that was renamed would else come back into `make test` without a word."""
    assert unused(request.config.stash[TEST_IDS]) == []
