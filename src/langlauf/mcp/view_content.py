"""Views of a result as content that a model can read: short Markdown tables, texts, pictures and small files."""

import base64
from collections.abc import Iterable, Sequence
from typing import Any

from langlauf.domain.result import (
    AnyView,
    ChartView,
    FileView,
    ImageView,
    MapView,
    MarkdownView,
    TableView,
)
from langlauf.domain.text import pointer_parts

#: A model needs an excerpt; all rows are in the result.
MOST_ROWS, MOST_COLUMNS, LONGEST_CELL = 20, 10, 80
_LONGEST_TEXT = 16_384
#: All pictures and files of a result, in bytes.
_LARGEST_MEDIA = 1_048_576
_TEXT_FILES = ("text/", "application/json", "application/geo+json", "application/xml")
Block = dict[str, Any]


def text_block(text: str) -> Block:
    """Return a text as content."""
    return {"type": "text", "text": text}


def blocks_of(views: Sequence[AnyView], payload: Any, address: str) -> list[Block]:
    """Return the views as content. `payload` is the result, or None where it is too large; `address` is its page."""
    blocks: list[Block] = []
    room = _LARGEST_MEDIA
    for number, view in enumerate(views, 1):
        if isinstance(view, ImageView | FileView):
            if len(view.data) <= room:
                room -= len(view.data)
                blocks.append(_media(view, f"{address}/views/{number}"))
            else:
                blocks.append(text_block(f"{_name(view)}: {len(view.data):,} bytes, at {address}/views/{number}"))
        elif text := _text(view, payload):
            shown = text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 1] + "…"
            blocks.append(text_block(f"### {view.title}\n\n{shown}" if view.title else shown))
    return blocks


def _name(view: ImageView | FileView) -> str:
    return view.title or (view.name if isinstance(view, FileView) else view.alt) or view.media_type


def _media(view: ImageView | FileView, address: str) -> Block:
    data, kind = base64.b64encode(view.data).decode(), view.media_type.partition(";")[0]
    if isinstance(view, ImageView):
        return {"type": "image", "data": data, "mimeType": kind}
    if kind.startswith("audio/"):
        return {"type": "audio", "data": data, "mimeType": kind}
    content: dict[str, Any] = {"uri": address, "mimeType": kind}
    if kind.startswith(_TEXT_FILES):
        content["text"] = view.data.decode("utf-8", "replace")
    else:
        content["blob"] = data
    return {"type": "resource", "resource": content}


def _text(view: AnyView, payload: Any) -> str:
    match view:
        case TableView():
            rows = view.rows if view.rows is not None else _at(payload, view.at)
            return markdown_table(rows, [(one.name, _heading(one)) for one in view.columns]) if rows else ""
        case MarkdownView():
            return view.text
        case ChartView():
            return f"Chart: {view.summary}" if view.summary else ""
        case MapView():
            found = view.geojson if view.geojson is not None else _at(payload, view.at)
            features = found.get("features") if isinstance(found, dict) else None
            return f"Map with {len(features):,} features." if isinstance(features, list) else ""
        case _:
            return ""


def _heading(column: Any) -> str:
    title = column.title or column.name
    return f"{title} ({column.unit})" if column.unit else title


def _at(payload: Any, pointer: str | None) -> Any:
    """Return what a JSON pointer finds in the result; None where there is nothing."""
    found = payload
    for part in pointer_parts(pointer or ""):
        if isinstance(found, dict):
            found = found.get(part)
        elif isinstance(found, list) and part.isascii() and part.isdigit() and int(part) < len(found):
            found = found[int(part)]
        else:
            return None
    return found


def markdown_table(rows: Any, columns: Sequence[tuple[str, str]] = ()) -> str:
    """Return the first rows of a table, objects by field or lists by position, and how many more there are."""
    if not isinstance(rows, list):
        return ""
    listed = rows[:MOST_ROWS]
    chosen = list(columns) or [(name, name) for name in _names(listed)]
    if not chosen or not listed:
        return ""
    shown = chosen[:MOST_COLUMNS]
    lines = [_line(title for _, title in shown), _line("---" for _ in shown)]
    names = [name for name, _ in chosen]
    lines += [_line(_cell(row, name, names.index(name)) for name, _ in shown) for row in listed]
    left = [f"{len(rows) - len(listed):,} more rows"] if len(rows) > len(listed) else []
    left += [f"{len(chosen) - len(shown)} more columns"] if len(chosen) > len(shown) else []
    return "\n".join(lines) + (f"\n\n… {' and '.join(left)} in the result." if left else "")


def _names(rows: Iterable[Any]) -> list[str]:
    """Return the names of fields in the order of their first occurrence; positions where rows are lists."""
    names: dict[str, None] = {}
    for row in rows:
        if isinstance(row, dict):
            names.update(dict.fromkeys(row))
        elif isinstance(row, list):
            names.update(dict.fromkeys(map(str, range(1, len(row) + 1))))
    return list(names)


def _cell(row: Any, name: str, position: int) -> str:
    if isinstance(row, dict):
        value = row.get(name)
    else:
        value = row[position] if isinstance(row, list) and position < len(row) else None
    return "" if value is None else str(value)


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(map(_clean, cells)) + " |"


def _clean(cell: str) -> str:
    flat = " ".join(cell.replace("|", "\\|").split())
    return flat if len(flat) <= LONGEST_CELL else flat[: LONGEST_CELL - 1] + "…"
