"""The panels of a snapshot: one per view, with Markdown as allowed HTML, and the JSON."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, get_args
from urllib.parse import quote, urlsplit

import msgspec
from markupsafe import Markup, escape

from langlauf.domain.result import StoredResult
from langlauf.telemetry.log import LogEvent, log_event
from langlauf.ui.formats import MAX_JSON_BYTES, format_number, format_size, in_words, json_excerpt
from langlauf.ui.language import AnalysisWords
from langlauf.ui.page_request import PageRequest
from langlauf.ui.renderer import PageRenderer
from langlauf.ui.responses import image_info
from langlauf.ui.views.chart_renderer import MAX_FOCUSABLE, ChartFailure, RenderedChart, chart_renderer
from langlauf.ui.views.chart_spec import ChartRefused, ChartWidth, chart_axes, chart_rows, safe_spec
from langlauf.ui.views.map_shapes import map_features
from langlauf.ui.views.map_svg import MAX_DRAWN_TWICE, MapStyle, map_drawing
from langlauf.ui.views.map_svg import MAX_FOCUSABLE as MAX_FOCUSABLE_POINTS
from langlauf.ui.views.raw_json import NULL, at_pointer, items, mask_secrets, members
from langlauf.ui.views.stored_views import (
    AnyRawView,
    RawChartView,
    RawFileView,
    RawImageView,
    RawMapView,
    RawMarkdownView,
    RawTableView,
    ResultViews,
    largest_table,
    result_views,
)
from langlauf.ui.views.table import member_sizes, readable_table, table_data, tree_steps

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

# -- Markdown ----------------------------------------------------------------------------------------------------------

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


# -- panels ------------------------------------------------------------------------------------------------------------

#: Further views are left to the JSON.
MAX_VIEWS = 24
_CHART_SECONDS = 15.0


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """A rendered view. `name` is its anchor on the page."""

    name: str
    title: str
    html: Markup


class _ChartDeadline:
    """The time that a page waits for all its charts together."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds

    async def spend(self, drawing: Awaitable[RenderedChart | ChartFailure]) -> RenderedChart | ChartFailure:
        """Return the chart within the remaining time; a rendering that takes longer is finished and cached."""
        try:
            async with asyncio.timeout(self._until - time.monotonic()):
                return await drawing
        except TimeoutError:
            return ChartFailure("busy")


class PanelContext(msgspec.Struct, frozen=True, kw_only=True):
    """The request, the snapshot and the number of a view."""

    request: PageRequest
    words: AnalysisWords
    result_id: str
    number: int
    drawing: _ChartDeadline

    @property
    def address(self) -> str:
        """The address of the view's image or file."""
        return f"{self.request.root}results/{quote(self.result_id, safe='')}/views/{self.number}"


class PanelRenderer:
    """Renders the views of a snapshot."""

    def __init__(self, renderer: PageRenderer) -> None:
        self._renderer = renderer
        self._board = chart_renderer()

    async def panels(self, request: PageRequest, words: AnalysisWords, stored: StoredResult) -> list[Panel]:
        """Return all panels of a snapshot that has its payload."""
        return await self.panels_of(request, words, stored, await asyncio.to_thread(result_views, stored))

    async def panels_of(
        self, request: PageRequest, words: AnalysisWords, stored: StoredResult, found: ResultViews
    ) -> list[Panel]:
        """Return all panels, given the parsed views."""
        if stored.payload is None:
            return []
        drawing = _ChartDeadline(_CHART_SECONDS)
        panels = []
        for number, view in enumerate(found.views[:MAX_VIEWS], 1):
            place = PanelContext(
                request=request, words=words, result_id=stored.snapshot.result_id, number=number, drawing=drawing
            )
            title = words.text(view.title) or str(request.language.text(f"view.kind.{_view_kind(view)}"))
            html = await self._drawn(place, found, view)
            panels.append(Panel(name=f"{_view_kind(view)}-{number}", title=title, html=html))
        return [*panels, Panel(name="json", title="JSON", html=await self._json(request, words, found))]

    async def _drawn(self, place: PanelContext, found: ResultViews, view: AnyRawView) -> Markup:
        """Render a view; an error in one does not affect the others."""
        try:
            return await self._view(place, found, view)
        except (TypeError, ValueError, LookupError, AttributeError, RecursionError) as error:
            log_event(LogEvent.REQUEST_FAILED, logging.WARNING, error=error, request_id=place.request.request_id)
            return self._html(place, "unreadable")

    async def _view(self, place: PanelContext, found: ResultViews, view: AnyRawView) -> Markup:
        by_kind: dict[type[AnyRawView], Callable[[PanelContext, ResultViews, Any], Awaitable[Markup]]] = {
            RawTableView: self._table,
            RawChartView: self._chart,
            RawMapView: self._map,
            RawMarkdownView: self._markdown,
            RawImageView: self._image,
            RawFileView: self._file,
        }
        draw = by_kind.get(type(view))
        return self._html(place, "unreadable") if draw is None else await draw(place, found, view)

    async def _table(self, place: PanelContext, found: ResultViews, view: RawTableView) -> Markup:
        rows = await asyncio.to_thread(found.rows, view)
        return self._html(place, "table", grid=readable_table(table_data(rows, view.columns), place.words))

    async def _chart(self, place: PanelContext, _: ResultViews, view: RawChartView) -> Markup:
        words = place.words
        tables = [readable_table(table_data(rows, []), words) for rows in chart_rows(view.spec)]
        sizes: dict[ChartWidth, RenderedChart] = {}
        for room in get_args(ChartWidth):
            try:
                spec = words.chart(safe_spec(view.spec, room))
            except ChartRefused as refused:
                return self._html(place, "chart", sizes=None, trouble=refused.why, tables=tables)
            drawn = await place.drawing.spend(self._board.draw(spec, "light", words.language))
            if isinstance(drawn, RenderedChart):
                if room == "wide" or drawn.width != sizes["wide"].width:
                    sizes[room] = drawn
            elif room == "wide":
                return self._html(place, "chart", sizes=None, trouble=drawn.trouble, tables=tables)
        return self._html(
            place,
            "chart",
            sizes=sizes,
            most_focusable=MAX_FOCUSABLE,
            alt=words.text(view.summary),
            axes=chart_axes(spec),
            title=words.text(view.title),
            tables=tables,
        )

    async def _map(self, place: PanelContext, found: ResultViews, view: RawMapView) -> Markup:
        features = await asyncio.to_thread(lambda: map_features(found.geojson(view)))
        style = MapStyle(main=view.main, size=view.size)
        plan = await asyncio.to_thread(map_drawing, features, style)
        few = len(features.drawn) <= MAX_DRAWN_TWICE
        narrow = await asyncio.to_thread(map_drawing, features, style, narrow=True) if few else None
        rows = [one.properties for one in features.drawn if members(one.properties)]
        grid = readable_table(table_data(rows, []), place.words) if rows else None
        words = place.words
        return self._html(
            place,
            "map",
            plans={"wide": plan} | ({"narrow": narrow} if narrow else {}) if plan else {},
            plan=plan,
            features=features,
            grid=grid,
            said=words.text,
            written=words.language.number,
            size_label=words.text(in_words(view.size)) if view.size else "",
            most_focusable=MAX_FOCUSABLE_POINTS,
        )

    async def _markdown(self, place: PanelContext, _: ResultViews, view: RawMarkdownView) -> Markup:
        html = await asyncio.to_thread(markdown_html, place.words.markdown(view.text[:MAX_MARKDOWN]))
        return self._html(place, "markdown", text=html, cut=len(view.text) > MAX_MARKDOWN)

    async def _image(self, place: PanelContext, _: ResultViews, view: RawImageView) -> Markup:
        picture = image_info(view.data, view.media_type)
        return self._html(
            place, "image", picture=picture, view=view, size=format_size(len(view.data), place.request.language)
        )

    async def _file(self, place: PanelContext, _: ResultViews, view: RawFileView) -> Markup:
        return self._html(place, "file", view=view, size=format_size(len(view.data), place.request.language))

    async def _json(self, request: PageRequest, words: AnalysisWords, found: ResultViews) -> Markup:
        payload = found.payload
        place = PanelContext(request=request, words=words, result_id="", number=0, drawing=_ChartDeadline(0))
        if memoryview(payload).nbytes > MAX_JSON_BYTES:
            return await self._large_json(place, found)
        body = json_excerpt(bytes(mask_secrets(payload)).decode(), request.language)
        return self._html(place, "json", steps=tree_steps(payload), body=body)

    async def _large_json(self, place: PanelContext, found: ResultViews) -> Markup:
        """Show how large the members of a result are, and the first rows of its largest list unless a view does."""
        payload = found.payload
        sizes = await asyncio.to_thread(member_sizes, payload)
        at = await asyncio.to_thread(largest_table, payload)
        elsewhere = {view.at for view in found.views if isinstance(view, RawTableView)}
        rows = [] if at is None or at in elsewhere else items(at_pointer(payload, at) or NULL)
        language = place.request.language
        return self._html(
            place,
            "large",
            size=format_size(memoryview(payload).nbytes, language),
            sizes=sizes,
            size_of=lambda count: format_size(count, language),
            amount=lambda count: format_number(count, language),
            at=at,
            grid=readable_table(table_data(rows, []), place.words) if rows else None,
        )

    def _html(self, place: PanelContext, name: str, **values: Any) -> Markup:
        address = {"address": place.address, "number": place.number}
        text = self._renderer.html(place.request, f"views/{name}.html", **address, **values)
        return Markup(text)  # noqa: S704 - a template's own output, escaped when it was made


def _view_kind(view: AnyRawView) -> str:
    return str(view.__struct_config__.tag)
