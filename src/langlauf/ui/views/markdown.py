"""markdown"""

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from markupsafe import Markup, escape

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

#: In letters. Some texts take a parser time that grows with the square of their length.
MAX_MARKDOWN = 32 * 1024
_MAX_CACHED = 64
#: A page has a title, sections and panels; what a text calls its title stands below these.
_HEADING_OFFSET = 3
_LOWEST_HEADING = 6
_SAFE_SCHEMES = frozenset({"http", "https", "mailto"})
_ALLOWED_TAGS = frozenset(
    {"p", "ul", "ol", "li", "blockquote", "em", "strong", "table", "thead", "tbody", "tr", "th", "td"}
)
#: What has text in it and nothing else. A picture is what is said about it.
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
    """The parser, imported when a page first has a text: most servers start without one."""
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable("table")


@lru_cache(_MAX_CACHED)
def markdown_html(text: str) -> Markup:
    """The text as HTML in which nothing loads and nothing runs. A page that is shown again is not parsed again."""
    return _render(_parser().parse(text[:MAX_MARKDOWN]))


def _render(tokens: "Sequence[Token]") -> Markup:
    links: list[bool] = []
    return Markup("").join(_render_token(token, links) for token in tokens)


def _render_token(token: "Token", links: list[bool]) -> Markup:
    """What one token says. `links` remembers which of the open links are drawn."""
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
    """Whether a link leads to another site, or to a mail: not to code, and not to a page of ours."""
    try:
        return urlsplit(address).scheme.lower() in _SAFE_SCHEMES
    except ValueError:
        return False
