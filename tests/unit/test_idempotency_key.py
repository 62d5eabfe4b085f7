"""The description of an idempotency key and the code that reads it mean the same keys."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.requests import Request

from langlauf.api.openapi.components import parameter
from langlauf.api.submit_request import idempotency_key
from langlauf.problems import Problem
from tests.support.tiers import at_scale

SCHEMA = parameter("Idempotency-Key")["schema"]
#: What makes a difference, at lengths on both sides of the limit.
KEYS = st.text('"\\a~! é', max_size=8) | st.sampled_from([254, 255, 256]).flatmap(
    lambda length: st.sampled_from(["a" * length, f'"{"a" * length}"', '"' + '\\"' * length + '"', "\\" * length])
)


def _is_read(text: str) -> bool:
    headers = [(b"idempotency-key", text.encode("latin-1"))]
    try:
        return idempotency_key(Request({"type": "http", "headers": headers})) is not None
    except Problem:
        return False


@settings(deadline=None, max_examples=at_scale(500, 100))
@given(KEYS.filter(lambda text: text == text.strip()))
def test_what_is_described_is_what_is_read(text: str) -> None:
    """No more and no less; spaces around a value are no part of a header."""
    described = re.search(SCHEMA["pattern"], text) is not None
    assert (described and SCHEMA["minLength"] <= len(text) <= SCHEMA["maxLength"]) == _is_read(text)
