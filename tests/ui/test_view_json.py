"""JSON as it was written: pointers, secrets, tables, trees and what a shape suggests."""

import csv
import io

import msgspec
import pytest
from msgspec import Raw

from langlauf.domain.result import Column
from langlauf.ui.pages.result_downloads import csv_of
from langlauf.ui.views import table
from langlauf.ui.views import table as tree
from langlauf.ui.views.raw_json import at_pointer, items, mask_secrets, parse_raw
from langlauf.ui.views.stored_views import RawTableView, suggest_views
from langlauf.ui.views.table import TableCell, table_data, tree_steps

#: No double holds these, and no double is written like this.
DIGITS = ["9007199254740993", "123456789012345678901234567890", "1.10", "1e400", "-0.0"]


def rows(text: str) -> list[Raw]:
    """A list, as a table gets it."""
    return items(parse_raw(text))


def test_numbers_keep_every_digit() -> None:
    """In a table, in a tree and in CSV they are what was stored."""
    text = "[" + ",".join(f'{{"n":{digits}}}' for digits in DIGITS) + "]"
    grid = table_data(rows(text), [])
    assert [row[0] for row in grid.rows] == [TableCell("number", digits) for digits in DIGITS]
    assert grid.numeric == [True]
    leaves = [step.cell.text for step in tree_steps(parse_raw(text)) or [] if step.cell is not None]
    assert leaves == DIGITS
    assert csv_of(rows(text), RawTableView()).split("\r\n")[1:-1] == DIGITS


def test_rows_are_objects_by_field_lists_by_position_and_values() -> None:
    """Columns are every field in the order they come; names of columns count for positions."""
    grid = table_data(rows('[{"a":1,"b":"x"},{"c":null,"a":2}]'), [])
    assert [column.name for column in grid.columns] == ["a", "b", "c"]
    assert [[cell.text for cell in row] for row in grid.rows] == [["1", "x", ""], ["2", "", ""]]
    assert [cell.kind for cell in grid.rows[1]] == ["number", "none", "none"]
    by_position = table_data(rows('[[1,"x"],[2]]'), [])
    assert [column.name for column in by_position.columns] == ["1", "2"]
    named = table_data(rows('[[1,"x"],[2]]'), [Column(name="n"), Column(name="word")])
    assert [[cell.text for cell in row] for row in named.rows] == [["1", "x"], ["2", ""]]
    assert [column.name for column in table_data(rows('["a"]'), []).columns] == ["value"]


def test_a_table_shows_its_beginning_and_says_how_much_there_is() -> None:
    """Many rows, many columns, long texts and nested values are bounded."""
    many = table_data(rows("[" + ",".join(['{"a":1}'] * 1_000) + "]"), [])
    assert (len(many.rows), many.total, many.complete) == (table.MAX_ROWS, 1_000, False)
    wide = table_data(rows(msgspec.json.encode([{f"c{n}": n for n in range(100)}]).decode()), [])
    assert (len(wide.columns), wide.left_out) == (table.MAX_COLUMNS, 60)
    [[text, nested, huge]] = table_data(
        rows(msgspec.json.encode([["x" * 999, {"a": "y" * 999}, ["z" * 9_999]]]).decode()), []
    ).rows
    assert (len(text.text), len(nested.text), huge.text) == (300, 120, "[…]")
    assert (text.kind, nested.kind) == ("text", "nested")


@pytest.mark.parametrize(
    ("pointer", "found"),
    [
        ("", b'{"a/b":[{"~":1}]}'),
        ("/a~1b/0/~0", b"1"),
        ("/a~1b/1", None),
        ("/a~1b/-1", None),
        ("/x", None),
        ("a", None),
    ],
)
def test_pointers_lead_into_the_result(pointer: str, found: bytes | None) -> None:
    """By RFC 6901; one that leads nowhere finds nothing."""
    value = at_pointer(parse_raw('{"a/b":[{"~":1}]}'), pointer)
    assert (None if value is None else bytes(value)) == found


def test_secrets_are_hidden_and_nothing_else_changes() -> None:
    """Texts under names of secrets, at any depth; numbers stay, and what was masked before stays masked."""
    text = '{"api_key":"k","tokens":12,"n":1.10,"in":[{"Password":"p","a":"[redacted]"}],"cookie":{"a":"b"}}'
    hidden = '{"api_key":"*","tokens":12,"n":1.10,"in":[{"Password":"*","a":"*"}],"cookie":"*"}'
    assert bytes(mask_secrets(parse_raw(text))).decode() == hidden.replace("*", "[redacted]")
    kinds = {step.name: step.cell.kind for step in tree_steps(parse_raw(text)) or [] if step.cell is not None}
    assert kinds == {
        "api_key": "hidden",
        "tokens": "number",
        "n": "number",
        "Password": "hidden",
        "a": "hidden",
        "cookie": "hidden",
    }


def test_a_tree_is_bounded() -> None:
    """Too many nodes or bytes: none; too deep: short JSON in the place of the rest."""
    assert tree_steps(parse_raw("[" + ",".join(["1"] * (tree.MAX_NODES + 1)) + "]")) is None
    assert tree_steps(parse_raw("[[" + ",".join(["[1]"] * tree.MAX_NODES) + "]]")) is None
    assert tree_steps(parse_raw('"' + "x" * 300_000 + '"')) is None
    deep = tree_steps(parse_raw("[" * 60 + "]" * 60)) or []
    assert sum(step.kind == "into" for step in deep) == tree.MAX_TREE_DEPTH
    assert [step.kind for step in deep].count("out") == tree.MAX_TREE_DEPTH
    assert tree_steps(parse_raw("[" * 100_000 + "]" * 100_000)) is not None


def test_shapes_suggest_what_to_show() -> None:
    """GeoJSON is a map, x and y a chart, the largest list of objects nearest to the top a table; else nothing."""
    point = '{"type":"Point","coordinates":[1,2]}'
    assert suggest_views(parse_raw(point)).map_at == ""
    assert suggest_views(parse_raw(f'{{"where":{point},"rows":[{{"a":1}}]}}')).map_at == "/where"
    assert suggest_views(parse_raw('{"a":[{"x":1}],"b":[{"x":1},{"x":2}],"c":1}')).table_at == "/b"
    assert suggest_views(parse_raw('{"out":{"a/b":[{"x":1}]}}')).table_at == "/out/a~1b"
    assert suggest_views(parse_raw('[{"x":1}]')).table_at == ""
    assert suggest_views(parse_raw('{"x":[1,2,3],"y":[3,4,5]}')).chart is not None
    for nothing in ('{"x":[1,2],"y":[1]}', '{"x":[1,"a"],"y":[1,2]}', "[1,2]", '{"type":"Point"}', '"text"', "null"):
        shape = suggest_views(parse_raw(nothing))
        assert (shape.map_at, shape.table_at, shape.chart) == (None, None, None), nothing


def test_csv_computes_nothing() -> None:
    """Texts that start like a formula get an apostrophe; numbers and quotes are left as they are."""
    cells = ["=1+1", "+1", "-1", "@x", "\tx", 'say "hi", you', "plain"]
    text = csv_of(
        rows(msgspec.json.encode([{"=h": cell, "n": -5, "z": [1, {"a": "b"}]} for cell in cells]).decode()),
        RawTableView(),
    )
    [head, *lines] = list(csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline="")))
    assert head == ["'=h", "n", "z"]
    assert [line[0] for line in lines] == ["'=1+1", "'+1", "'-1", "'@x", "'\tx", 'say "hi", you', "plain"]
    assert {(line[1], line[2]) for line in lines} == {("-5", '[1,{"a":"b"}]')}
