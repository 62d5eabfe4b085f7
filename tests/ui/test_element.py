"""The element as a file: at an address that stays, for every origin, small, with the words and colours of the pages."""

import gzip
import re
from importlib.resources import files

from langlauf.ui.language import load_language
from tests.support.live import Live
from tests.ui.test_colours import STATES, tokens

ADDRESS = "/static/v1/job-progress.js"
#: In bytes, compressed.
SMALL = 8 * 1024


def source() -> str:
    """The file as it was written."""
    return (files("langlauf.ui") / "static" / "script" / "job-progress.js").read_text()


def test_every_page_of_every_origin_may_load_it(server: Live) -> None:
    """Asked for again each time, sent where it has changed."""
    got = server.http.get(ADDRESS, headers={"Origin": "https://elsewhere.example"})
    assert got.status_code == 200
    assert got.headers["content-type"] == "text/javascript; charset=utf-8"
    assert got.headers["access-control-allow-origin"] == "*"
    assert got.headers["cross-origin-resource-policy"] == "cross-origin"
    assert got.headers["cache-control"] == "no-cache"
    again = server.http.get(ADDRESS, headers={"If-None-Match": got.headers["etag"]})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", got.headers["etag"])
    assert "access-control-allow-origin" not in server.http.get("/static/v1/langlauf.css").headers


def test_it_is_small_and_whole(server: Live) -> None:
    """What is left out is for readers alone, and nothing else is loaded."""
    text = server.http.get(ADDRESS).text
    assert len(gzip.compress(text.encode(), 9)) <= SMALL
    lines = [line.strip() for line in source().split("\n") if not line.strip().startswith(("//", "/**"))]
    assert [line for line in text.split("\n") if line] == [line for line in lines if line]
    assert not re.search(r"\bimport\b|eval\(|https?://", text)


def test_its_words_are_those_of_the_pages() -> None:
    """A state has one name, wherever it is read."""
    for language in ("en", "de"):
        block = re.search(rf"^  {language}: \{{(.*?)^  \}},", source(), re.MULTILINE | re.DOTALL)
        assert block
        words = dict(re.findall(r'(\w+): "([^"]*)"', block[1]))
        known = load_language(language).texts
        for key, text in known.items():
            if key.startswith("state.") and key.removeprefix("state.") in words:
                assert words[key.removeprefix("state.")] == text
        assert {key.removeprefix("state.") for key in known if re.fullmatch(r"state\.[a-z]+", key)} <= set(words)


def test_both_languages_say_the_same() -> None:
    """Each word once in each, with the same places for values."""
    english, german = (
        dict(re.findall(r'(\w+): "([^"]*)"', block))
        for block in re.findall(r"^  (?:en|de): \{(.*?)^  \},", source(), re.MULTILINE | re.DOTALL)
    )
    assert sorted(english) == sorted(german)
    for key, text in english.items():
        assert sorted(re.findall(r"\{\w+\}", text)) == sorted(re.findall(r"\{\w+\}", german[key])), key


def test_its_colours_are_those_of_the_pages() -> None:
    """Which are tested for contrast."""
    light, dark = tokens("light"), tokens("dark")
    for state in STATES:
        expected = ",".join((light[state], dark[state], light[f"{state}-chip"], dark[f"{state}-chip"]))
        assert f'{state}: "{expected}"' in source()
    assert f"light-dark({light['track']},{dark['track']})" in source()
