"""The colours of the style sheet: enough contrast, in light and in dark."""

import re
from importlib.resources import files

import pytest

STATES = ("queued", "running", "partial", "completed", "failed", "canceled")
_TOKEN = re.compile(r"--([a-z-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);")


def tokens(scheme: str) -> dict[str, str]:
    """The tokens of one colour scheme."""
    sheet = (files("langlauf.ui") / "static" / "style" / "10_tokens.css").read_text()
    return {name: light if scheme == "light" else dark for name, light, dark in _TOKEN.findall(sheet)}


def contrast(first: str, second: str) -> float:
    """The contrast ratio of WCAG 2."""
    lighter, darker = sorted((luminance(first), luminance(second)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour: str) -> float:
    """The relative luminance of WCAG 2."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_can_be_read(scheme: str) -> None:
    """4.5 to 1 for every text on everything it stands on, 3 to 1 for lines that mean something."""
    known = tokens(scheme)
    for ground in ("bg", "surface"):
        for ink in ("text", "muted", "link"):
            assert contrast(known[ink], known[ground]) >= 4.5, (ink, ground)
        assert contrast(known["border"], known[ground]) >= 3
    for state in STATES:
        for ground in ("bg", "surface", f"{state}-chip"):
            assert contrast(known[state], known[ground]) >= 4.5, (state, ground)
        assert contrast(known[state], known["track"]) >= 3, (state, "bar")


def test_every_colour_is_a_token_with_both_schemes() -> None:
    """No colour of one scheme shows through in the other."""
    room = files("langlauf.ui") / "static" / "style"
    sheets = "\n".join(sheet.read_text() for sheet in room.iterdir())
    known = [colour for scheme in ("light", "dark") for colour in tokens(scheme).values()]
    assert sorted(re.findall(r"#[0-9a-f]{3,8}\b", sheets)) == sorted(known)
