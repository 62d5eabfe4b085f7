"""The trace of an error: the application's frames, what it came from, and no secret."""

import json
import re

import pytest

from langlauf.domain.failure import read_cause
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
    assert re.search(r"  \[\d frames of libraries, the last of which is:\]\n  File .*json.decoder.py", trace)
    assert "in raw_decode" in trace or "in decode" in trace
    assert trace.count("json/decoder.py") == 1
    assert "This led to" in trace
    assert trace.endswith("RuntimeError: password='[redacted]' was refused\n")


def test_a_trace_names_the_line_of_the_application() -> None:
    """Of the last error with a frame of its own, also where a library raised it; frames of libraries never count."""
    cause = read_cause(format_trace(_caught("{")))
    assert cause.error == "RuntimeError: password='[redacted]' was refused"
    assert cause.place is not None
    assert (cause.place.function, cause.place.code) == (
        "_refused",
        "raise RuntimeError(\"password='a b c' was refused\") from error".replace("a b c", "[redacted]"),
    )
    with pytest.raises(ValueError, match="Expecting") as caught:
        _own("{")
    cause = read_cause(format_trace(caught.value))
    assert cause.place is not None
    assert (cause.place.function, cause.place.code) == ("_own", "return json.loads(text)")
    assert cause.place.short.startswith("test_error_trace.py:")
    assert cause.error.startswith("JSONDecodeError: Expecting")
    opened = 'Traceback:\n  File "shop.py", line 3, in buy\n    raise PermanentError(\nPermanentError: sold out'
    cause = read_cause(opened)
    assert cause.place is not None
    assert (cause.place.short, cause.place.code, cause.error) == ("shop.py:3", "", "PermanentError: sold out")
    alone = read_cause(format_trace(ValueError("two\nlines")))
    assert (alone.error, alone.place) == ("ValueError: two\nlines", None)


def test_an_error_of_a_library_alone_keeps_its_frames() -> None:
    """Where nothing is the application's, nothing is folded, and no place is said to be the application's."""
    error = ValueError("made up")
    assert format_trace(error) == "ValueError: made up\n"
    with pytest.raises(ValueError, match="Expecting") as caught:
        json.loads("{")
    assert caught.value.__traceback__ is not None
    trace = format_trace(caught.value.with_traceback(caught.value.__traceback__.tb_next))
    assert re.search(r"  \[\d frames, all of libraries:\]\n  File .*json.__init__.py(.|\n)*json.decoder.py", trace)
    assert read_cause(trace).place is None


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
