"""Markdown by what is allowed, and pictures by what their bytes say."""

import struct

import pytest

from langlauf.ui.responses import ImageInfo, download_type, file_name, image_info
from langlauf.ui.views.panels import markdown_html
from tests.support.view_samples import ATTACK, MARKDOWN, SVG, png
from tests.ui.html_page import HtmlPage

ALLOWED = {
    *("h4", "h5", "h6", "p", "a", "strong", "em", "ul", "ol", "li", "blockquote", "pre", "code", "hr", "br"),
    *("table", "thead", "tbody", "tr", "th", "td"),
}


def test_markdown_becomes_what_is_allowed() -> None:
    """Headings below the page's, lists, tables, quotes, code; markup in it is text; a picture is its description."""
    made = HtmlPage(str(markdown_html(MARKDOWN)))
    assert (made.open, made.crossed) == ([], [])
    assert {tag for tag, _ in made.elements} <= ALLOWED
    assert made.text_of("h4") == "Noise in the quarter"
    assert made.text.count(ATTACK) == 2
    assert "a picture" in made.text
    assert made.all("a") == [{"href": "https://example.org/map", "rel": "noopener noreferrer nofollow"}]


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)", "JaVaScRiPt:alert(1)", "java&#10;script:alert(1)", "&#106;avascript:alert(1)",
        "vbscript:x",
        "data:text/html,<script>alert(1)</script>", "data:image/png;base64,AA", "//example.org", "/logout", "logout",
        "file:///etc/passwd", "\\x01javascript:alert(1)", "blob:x", "?a=b", "#main", "http&colon;//x", "https:[",
    ],
)  # fmt: skip
def test_other_links_are_texts(address: str) -> None:
    """Neither code, nor what is ours, nor what cannot be read."""
    for text in (f"[go]({address})", f"<{address}>", f"[go][1]\n\n[1]: {address}", f"![go]({address})"):
        made = HtmlPage(str(markdown_html(text)))
        assert {one["href"] for one in made.all("a") if not one["href"].startswith(("http:", "https:"))} == set()
        assert made.all("img") == []


def test_links_elsewhere_may_be_followed() -> None:
    """To sites and to people."""
    made = HtmlPage(str(markdown_html('[a](https://e.org/?a="x"&b=1) <mailto:me@e.org> [c](HTTP://e.org)')))
    assert [one["href"] for one in made.all("a")] == ["https://e.org/?a=%22x%22&b=1", "mailto:me@e.org", "HTTP://e.org"]


def test_markdown_of_any_depth_or_length_is_shown() -> None:
    """Nesting and length are bounded."""
    for text in (
        "> " * 5_000 + "x",
        "* " * 5_000 + "x",
        "[" * 20_000,
        "*a " * 20_000,
        "x" * 1_000_000,
        "1" * 20 + ". x",
    ):
        made = HtmlPage(str(markdown_html(text)))
        assert (made.open, made.crossed) == ([], [])
    assert HtmlPage(str(markdown_html("7. a\n8. b"))).all("ol") == [{"start": "7"}]


JPEG = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x11\x08" + struct.pack(">HH", 30, 40) + b"\x03"
WEBP = b"RIFF\x00\x00\x00\x00WEBP"


@pytest.mark.parametrize(
    ("data", "media_type", "found"),
    [
        (png(7, 9), "image/png", ImageInfo("image/png", 7, 9)),
        (b"GIF89a" + struct.pack("<HH", 5, 6), "image/gif", ImageInfo("image/gif", 5, 6)),
        (JPEG, "image/jpeg", ImageInfo("image/jpeg", 40, 30)),
        (JPEG, "image/jpg", ImageInfo("image/jpeg", 40, 30)),
        (b"\xff\xd8\xff\xe0\x00\x02\x00\x00", "image/jpeg", ImageInfo("image/jpeg")),
        (b"\xff\xd8\xff\xd9", "image/jpeg", None),
        (WEBP + b"VP8X" + bytes(8) + b"\x09\x00\x00\x13\x00\x00", "image/webp", ImageInfo("image/webp", 10, 20)),
        (WEBP + b"VP8 " + bytes(10) + struct.pack("<HH", 11, 12), "image/webp", ImageInfo("image/webp", 11, 12)),
        (
            WEBP + b"VP8L" + bytes(5) + (9 | 19 << 14).to_bytes(4, "little"),
            "image/webp",
            ImageInfo("image/webp", 10, 20),
        ),
        (png(), "image/gif", None),
        (SVG, "image/svg+xml", None),
        (SVG, "image/png", None),
        (b"<html>", "text/html", None),
        (b"\x89PNG\r\n\x1a\n", "image/png", None),
        (b"", "image/png", None),
    ],
)
def test_a_picture_is_what_its_bytes_say(data: bytes, media_type: str, found: ImageInfo | None) -> None:
    """Of four kinds, where type and bytes agree; never SVG, never a page."""
    assert image_info(data, media_type) == found


def test_files_are_sent_as_nothing_that_runs() -> None:
    """Under a type that no browser opens as a page, and a name without a way in it."""
    assert download_type("text/csv; charset=utf-8") == "text/csv"
    for kind in ("TEXT/HTML", "image/svg+xml", "text/javascript", ""):
        assert download_type(kind) == "application/octet-stream"
    assert file_name("../../etc/passwd") == "_.._etc_passwd"
    assert file_name('a"b\r\nSet-Cookie: x') == "a_b_Set-Cookie_ x"
    assert file_name(" . ") == "file"
