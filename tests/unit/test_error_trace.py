"""The trace of an error: the application's frames, what it came from, and no secret."""

import json

import pytest

from langlauf.worker.failure import format_trace


def _own(text: str) -> object:
    return json.loads(text)


def _refused(text: str) -> None:
    try:
        _own(text)
    except ValueError as error:
        raise RuntimeError("password='a b c' was refused") from error


def _caught(text: str) -> Exception:
    with pytest.raises(RuntimeError) as caught:
        _refused(text)
    return caught.value


def test_frames_of_libraries_are_counted_and_those_of_the_application_shown() -> None:
    """The last one is always shown: there it happened."""
    trace = format_trace(_caught("{"))
    assert "in _own\n    return json.loads(text)" in trace
    assert "  [2 frames of libraries]\n" in trace
    assert "in raw_decode" in trace or "in decode" in trace
    assert trace.count("json/decoder.py") == 1
    assert "This led to" in trace
    assert trace.endswith("RuntimeError: password='[redacted]' was refused\n")


def test_an_error_of_a_library_alone_keeps_its_frames() -> None:
    """Where nothing is the application's, nothing is folded."""
    error = ValueError("made up")
    assert format_trace(error) == "ValueError: made up\n"


def test_a_group_is_folded_in_all_its_parts() -> None:
    """Each exception has frames of its own."""
    trace = format_trace(ExceptionGroup("both", [_caught("{"), ValueError("x")]))
    assert "frames of libraries" in trace
    assert "ValueError: x" in trace


def test_a_long_trace_keeps_its_end_without_half_a_secret() -> None:
    """The end says what happened."""
    error = ValueError("at last")
    error.__cause__ = ValueError("token=a1b2c3d4e5f6 " * 300)
    error.__cause__.__cause__ = ValueError("password=a1b2c3d4e5f6 " * 300)
    trace = format_trace(error)
    assert len(trace) <= 8_000
    assert trace.endswith("at last\n")
    assert "a1b2" not in trace
    assert "e5f6" not in trace
