"""What commands print steers no terminal: characters that cannot be seen are written as escapes."""

import json

import pytest

from langlauf.cli.options import CommandError, json_line, json_text, plain, print_note, print_table

STEERING = "a\x1b]0;x\x07b\x9b31mc\x08d\u2028e\u2029f\x85g\u202eh"


def test_words_of_others_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    """In lines, tables, notes and errors; letters of every language stay."""
    shown = r"a\e]0;x\x07b\x9b31mc\x08d\u2028e\u2029f\x85g\u202eh"
    assert plain(STEERING) == shown
    assert plain("Straße 😀\nzwei") == "Straße 😀\\nzwei"
    print_table(("NAME", "STEP"), [("a", STEERING)])
    print_note(f"one\n{STEERING}")
    CommandError(STEERING).show()
    written = capsys.readouterr()
    assert shown in written.out
    assert written.err == f"one\n{shown}\nlanglauf: {shown}\n"


def test_json_is_escaped_and_means_the_same() -> None:
    """What JSON would let through as it is becomes an escape of JSON."""
    for text in (json_text({"step": STEERING}), json_line({"step": STEERING})):
        assert all(char.isprintable() or char == "\n" for char in text.decode())
        assert json.loads(text) == {"step": STEERING}
