"""Markdown as HTML, limited to allowed tags. Everything else is shown as text."""

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from markupsafe import Markup, escape

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

#: In characters. The parser takes quadratic time for some texts.
MAX_MARKDOWN = 32 * 1024
_MAX_CACHED = 64
#: Headings of a text start below those of the page, its sections and its panels.
_HEADING_OFFSET = 3
_LOWEST_HEADING = 6
_SAFE_SCHEMES = frozenset({"http", "https", "mailto"})
_ALLOWED_TAGS = frozenset(
    {"p", "ul", "ol", "li", "blockquote", "em", "strong", "table", "thead", "tbody", "tr", "th", "td"}
)
#: Tokens that contain only text. An image becomes its alternative text.
_LEAF_TEMPLATES = {
    "text": Markup("{}"),
    "html_inline": Markup("{}"),
    "html_block": Markup("{}"),
    "image": Markup("{}"),
    "softbreak": Markup("\n"),
    "hardbreak": Markup("<br>"),
    "hr": Markup("<hr>"),
    "code_inline": Markup("<code>{}</code>"),
    "fence": Markup('<pre tabindex="0"><code>{}</code></pre>'),
    "code_block": Markup('<pre tabindex="0"><code>{}</code></pre>'),
}


@lru_cache(1)
def _parser() -> "MarkdownIt":
    """Return the parser, imported on first use because most servers never need it."""
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable("table")


@lru_cache(_MAX_CACHED)
def markdown_html(text: str) -> Markup:
    """Render a text as HTML that loads and runs nothing. Results are cached."""
    return _render(_parser().parse(text[:MAX_MARKDOWN]))


def _render(tokens: "Sequence[Token]") -> Markup:
    links: list[bool] = []
    return Markup("").join(_render_token(token, links) for token in tokens)


def _render_token(token: "Token", links: list[bool]) -> Markup:
    """Render one token. `links` tells which of the open links are rendered."""
    kind = token.type
    if kind == "inline":
        return _render(token.children or [])
    if kind in ("link_open", "link_close"):
        return _link(token, links)
    if kind in _LEAF_TEMPLATES:
        return _LEAF_TEMPLATES[kind].format(token.content)
    return _element(token)


def _element(token: "Token") -> Markup:
    if token.hidden:
        return Markup("")
    if token.type in ("heading_open", "heading_close"):
        level = min(int(token.tag[1:]) + _HEADING_OFFSET, _LOWEST_HEADING)
        return Markup(f"<h{level}>" if token.nesting == 1 else f"</h{level}>")  # noqa: S704 - a number of ours
    if token.tag not in _ALLOWED_TAGS or token.nesting == 0:
        return escape(token.content)
    if token.nesting == -1:
        return Markup(f"</{token.tag}>")  # noqa: S704 - a word of our list
    start = token.attrs.get("start")
    if token.tag == "ol" and isinstance(start, int):
        return Markup('<ol start="{}">').format(start)
    scope = ' scope="col"' if token.tag == "th" else ""
    return Markup(f"<{token.tag}{scope}>")  # noqa: S704 - a word of our list


def _link(token: "Token", links: list[bool]) -> Markup:
    if token.type == "link_close":
        return Markup("</a>") if links.pop() else Markup("")
    address = str(token.attrs.get("href", ""))
    links.append(_is_safe_link(address))
    if not links[-1]:
        return Markup("")
    return Markup('<a href="{}" rel="noopener noreferrer nofollow">').format(address)


def _is_safe_link(address: str) -> bool:
    """Whether a link leads to another site or to a mail address, not to code or to one of our pages."""
    try:
        return urlsplit(address).scheme.lower() in _SAFE_SCHEMES
    except ValueError:
        return False
