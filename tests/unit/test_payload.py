"""Values of an analysis as JSON: the same text whichever way, and large ones beside the event loop."""

import asyncio
import decimal
import threading
import uuid
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from langlauf.analysis import payload
from langlauf.analysis.chunks import format_step
from langlauf.analysis.payload import AttemptThread
from langlauf.domain.errors import ResultTooLarge, ResultUnstorable


@dataclass
class Place:
    """Something that is no plain JSON."""

    name: str


@pytest.mark.parametrize(
    ("value", "apart"),
    [
        ({"a": [1, 2.5, None, True, "x"]}, False),
        ("x" * 10_000, False),
        ("x" * 1_000_000, True),
        (list(range(100_000)), True),
        ([[[]] * 600] * 2, True),
        ({"place": Place("Bern")}, True),
        ({1: "a"}, False),
    ],
)
def test_large_and_unknown_values_are_encoded_in_a_thread(
    monkeypatch: pytest.MonkeyPatch, value: Any, apart: bool
) -> None:
    """The event loop goes on meanwhile; small ones are not worth the way."""
    threads: list[str] = []
    plain = payload.encode

    def noted(value: Any, largest: int) -> str:
        threads.append(threading.current_thread().name)
        return plain(value, largest)

    monkeypatch.setattr(payload, "encode", noted)
    text = asyncio.run(payload.encode_async(value, 10_000_000, AttemptThread()))
    assert text == plain(value, 10_000_000)
    assert (threads != [threading.main_thread().name]) == apart


@pytest.mark.parametrize(
    "value",
    [
        {float("nan"): 1},
        {float("nan"): 1, float("nan"): 2},
        {uuid.UUID(int=1): 1, str(uuid.UUID(int=1)): 2},
        [{"deep": ({decimal.Decimal(1): 1, "1": 2},)}],
        {1: "a", "1": "b"},
    ],
)
def test_names_that_become_the_same_are_refused(value: object) -> None:
    """Nothing is lost silently, and nothing becomes a name that JSON cannot tell apart."""
    with pytest.raises(ResultUnstorable):
        payload.encode(value, 1_000)


def test_names_of_other_types_become_texts() -> None:
    """Where they stay apart."""
    assert payload.encode({uuid.UUID(int=1): {2: "b"}}, 1_000) == f'{{"{uuid.UUID(int=1)}":{{"2":"b"}}}}'


@pytest.mark.parametrize(
    ("step", "item", "said"),
    [
        ("Tile {}", 3, "Tile 3"),
        ("Tile {:.1f}", 2.25, "Tile 2.2"),
        ("Tile {[x]}", {"x": 1, "all": [0] * 1_000_000}, "Tile 1"),
        ("Tile {}", [0] * 1_000_000, "Tile [0, 0, 0"),
        ("Tile {}", "x" * 1_000_000, "Tile xxx"),
    ],
)
def test_a_step_shows_as_much_of_an_item_as_people_read(step: str, item: Any, said: str) -> None:
    """However large the item is."""
    text = format_step(step, item) or ""
    assert text.startswith(said)
    assert len(text) < 1_000


@pytest.mark.parametrize("step", ["{:>1000000000}", "{:{0}}", "{:.99999f}"])
def test_a_step_that_would_fill_the_memory_is_shown_as_it_is(step: str) -> None:
    """A width is for columns, and a step is one line."""
    assert format_step(step, 1) == step


@pytest.mark.parametrize("large", [False, True])
def test_a_large_stored_value_is_decoded_in_a_thread(monkeypatch: pytest.MonkeyPatch, large: bool) -> None:
    """A small one at once."""
    threads: list[int] = []
    decode = payload.decode

    def watched(text: str) -> Any:
        threads.append(threading.get_ident())
        return decode(text)

    monkeypatch.setattr(payload, "decode", watched)
    value = "x" * (payload.LARGE_TEXT if large else 10)
    assert asyncio.run(payload.decode_async(f'"{value}"')) == value
    assert (threads != [threading.get_ident()]) is large


@pytest.mark.parametrize("value", ["xx", [1, [2, 3]], {"a": {"b": "c"}}, [[]], [{}, "é"], 12345, None])
def test_a_value_of_exactly_the_largest_size_is_stored(value: Any) -> None:
    """And one byte more is refused."""
    size = len(msgspec.json.encode(value))
    assert len(payload.encode(value, size).encode()) == size
    with pytest.raises(ResultTooLarge):
        payload.encode(value, size - 1)
