"""The deliberate mistakes of `python -m tests.sabotage` fit the code and the tests as they are."""

import pytest

from tests.sabotage.kinds import KINDS, Sabotage
from tests.support.server import ROOT


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name.replace(" ", "-"))
def test_a_mistake_can_be_made(kind: Sabotage) -> None:
    """Its text is in its file, and the tests that must find it exist."""
    text = (ROOT / kind.file).read_text("utf-8")
    assert [old for old, _ in kind.edits if old not in text] == []
    assert [test for test in kind.tests if not (ROOT / test.partition("::")[0]).exists()] == []
