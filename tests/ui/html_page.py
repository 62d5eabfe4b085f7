"""What a browser would make of a page: its elements, its texts and where its links lead."""

from html.parser import HTMLParser

import httpx2

from langlauf.ui.renderer import CONTENT_SECURITY_POLICY

_VOID = {"meta", "link", "br", "img", "input", "hr", "source"}
#: Links in the texts of analyses lead elsewhere, and say so.
_ELSEWHERE = "noopener noreferrer nofollow"


class HtmlPage(HTMLParser):
    """A page, parsed."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.crossed: list[str] = []
        self._texts: list[tuple[str, str]] = []
        self._areas: list[list[str]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keeps the element with its attributes."""
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in _VOID:
            self.open.append(tag)
        if tag == "textarea":
            self._areas.append([])

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element that closes itself, as in SVG."""
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        """An element that ends out of order is remembered."""
        if self.open and self.open[-1] == tag:
            self.open.pop()
        else:
            self.crossed.append(tag)

    def handle_data(self, data: str) -> None:
        """Keeps the text with the element it stands in."""
        self._texts.append((self.open[-1] if self.open else "", data))
        if self.open and self.open[-1] == "textarea":
            self._areas[-1].append(data)

    @property
    def text(self) -> str:
        """All that can be read."""
        return "".join(text for _, text in self._texts)

    def text_of(self, tag: str) -> str:
        """What stands directly in elements of this name."""
        return "".join(text for where, text in self._texts if where == tag)

    def all(self, tag: str) -> list[dict[str, str]]:
        """The attributes of every element of this name."""
        return [attributes for name, attributes in self.elements if name == tag]

    def links(self) -> list[str]:
        """Where the page leads."""
        return [attributes["href"] for attributes in self.all("a")]

    def areas(self) -> list[tuple[dict[str, str], str]]:
        """Every field of many lines with its text; a browser drops the line break it begins with."""
        texts = iter("".join(pieces) for pieces in self._areas)
        return [(one, next(texts).removeprefix("\n")) for one in self.all("textarea")]

    def selected(self) -> list[tuple[str, str]]:
        """What every list of choices has chosen: what is marked, else its first."""
        found: list[tuple[str, list[dict[str, str]]]] = []
        for tag, attributes in self.elements:
            if tag == "select":
                found.append((attributes["name"], []))
            elif tag == "option" and found:
                found[-1][1].append(attributes)
        return [
            (name, next((one["value"] for one in options if "selected" in one), options[0]["value"]))
            for name, options in found
            if options
        ]

    @property
    def refresh(self) -> str | None:
        """After how many seconds the page loads itself again."""
        found = [one["content"] for one in self.all("meta") if one.get("http-equiv") == "refresh"]
        return found[0] if found else None


def assert_page(response: httpx2.Response, status: int = 200) -> HtmlPage:
    """A response that must be one of our pages: sound markup, no code but files of ours, nothing from elsewhere."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert response.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
    assert response.headers["referrer-policy"] == "same-origin"
    assert "Accept-Language" in response.headers["vary"]
    made = HtmlPage(response.text)
    assert (made.open, made.crossed) == ([], []), "elements are not closed as they were opened"
    names = {tag for tag, _ in made.elements}
    assert not names & {"iframe", "object", "embed", "style", "base"}
    for script in made.all("script"):
        assert (script["type"], set(script) - {"type", "src", "blocking"}) == ("module", set())
        assert "/static/" in script["src"]
    for form in made.all("form"):
        assert form["method"] in ("get", "post")
        assert form["action"].startswith((".", "../"))
    for _, attributes in made.elements:
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
    targets = [one["href"] for one in made.all("a") if one.get("rel") != _ELSEWHERE]
    targets += [one["href"] for one in made.all("link")]
    targets += [one["src"] for tag in ("script", "img") for one in made.all(tag)]
    assert not [target for target in targets if target.startswith(("http:", "https:", "//", "javascript:"))]
    assert len(made.all("h1")) == 1
    ids = [attributes["id"] for _, attributes in made.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {target[1:] for target in targets if target.startswith("#")} <= set(ids)
    for _, attributes in made.elements:
        assert attributes.get("aria-labelledby", "main") in ids
    return made
