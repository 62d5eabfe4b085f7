"""Lines of the log: no secrets in any field, and nothing in a readable line that steers a terminal."""

import json
import logging
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from langlauf.telemetry.log import JsonFormatter, LogEvent, TextFormatter


def _record(
    fields: Mapping[str, Any], *, level: int = logging.WARNING, name: str = "langlauf", error: bool = False
) -> logging.LogRecord:
    record = logging.LogRecord(name, level, "", 0, LogEvent.MAINTENANCE_FAILED, (), sys.exc_info() if error else None)
    record.fields = dict(fields)
    return record


def _failed(text: str) -> logging.LogRecord:
    """The record of an exception that says this."""
    try:
        int(Words(text))
    except ValueError:
        return _record({"text": text}, error=True)
    raise AssertionError("no error")


class Words(str):
    """Words that no number can be made of."""

    __slots__ = ()

    def __int__(self) -> int:
        raise ValueError(str(self))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[31mb", "a\\e[31mb"),
        ("a\x9b31mb", "a\\x9b31mb"),
        ("a\x08b\x7f", "a\\x08b\\x7f"),
        ("a\u2028b\u2029c\x85d", "a\\u2028b\\u2029c\\x85d"),
        ("a\u202eb", "a\\u202eb"),
        ("a\nb\rc", "a\\nb\\rc"),
        ("Straße\u00a0😀", "Straße\u00a0😀"),
    ],
)
def test_a_text_line_has_no_control_characters(text: str, shown: str) -> None:
    """What cannot be seen is written as an escape, in fields and in traces."""
    assert TextFormatter().format(_record({"text": text})).endswith(f" text={shown}")
    line = TextFormatter().format(_failed(text.replace("\n", " ")))
    assert all(char.isprintable() or char in "\n\u00a0" for char in line)


@pytest.mark.parametrize("lines", [TextFormatter(), JsonFormatter()])
@pytest.mark.parametrize(
    "text",
    ["password='made up'", 'password="made up"', "-----BEGIN PRIVATE KEY-----\nmade\nup\n-----END PRIVATE KEY-----"],
)
def test_no_line_holds_a_secret(lines: logging.Formatter, text: str) -> None:
    """Neither in a field nor in a trace, whatever becomes of its quotes and line ends; nor in a line of a library."""
    line = lines.format(_failed(text))
    assert "made" not in line.replace("test_log_lines", "")
    assert "made" not in lines.format(_record({"text": text}, level=logging.INFO, name="a.library"))


def test_a_stack_trace_stands_below_its_line() -> None:
    """Line by line for people, as one field for machines; masked and escaped in both."""
    fields = {"code": "internal", "trace": "Traceback:\n  at \x1b[31m line 3\nError: password='made up'\n"}
    first, *rest = TextFormatter().format(_record(fields)).split("\n")
    assert first.endswith(" code=internal")
    assert rest == ["Traceback:", "  at \\e[31m line 3", "Error: password='[redacted]'"]
    assert json.loads(JsonFormatter().format(_record(fields)))["trace"].endswith("password='[redacted]'\n")


def test_a_json_line_stays_json() -> None:
    """Its values are masked before it is written."""
    line = json.loads(JsonFormatter().format(_record({"text": 'token="a b"', "count": 3, "api_token": "x"})))
    assert (line["text"], line["count"], line["api_token"]) == ('token="[redacted]"', 3, "[redacted]")
