"""Texts become tables: whatever people paste is read, and what cannot be is named by its place."""

import csv
import json
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langlauf.bundled.clustering.table import number, read_numbers, read_table
from langlauf.domain.errors import PermanentError

#: What is no way of saying that there is nothing, and no number.
words = st.text(st.characters(categories=["L"], include_characters=" "), min_size=1, max_size=8).map(
    lambda text: f"w{text}w"
)
figures = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e9, max_value=1e9)


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        ("a,b\n1,2\n3,4\n", ","),
        ("a;b\n1,5;2,5\n3,5;4,5\n", ";"),
        ("a\tb\n1\t2\n", "\t"),
        ("a|b\n1|2\n", "|"),
        ('a,b\n"x;y",2\n"p;q;r",3\n', ","),
        ("a\n1\n2\n", ","),
    ],
)
def test_the_delimiter_is_found(text: str, delimiter: str) -> None:
    """By what cuts all lines alike; decimal commas and quoted texts do not mislead it."""
    assert read_table(text).delimiter == delimiter


def test_a_header_is_a_row_without_numbers() -> None:
    """Else the columns are called by their position; columns of a header without a name are, too."""
    assert read_table("a,,c\n1,2,3\n").names == ["a", "column 2", "c"]
    plain = read_table("1,2\n3,4\n")
    assert (plain.names, plain.header, len(plain.rows)) == (["column 1", "column 2"], False, 2)


def test_ways_of_saying_nothing() -> None:
    """Blank lines are no rows, and blank cells have no value."""
    table = read_table("\ufeffa,b\r\n1,\r\n\r\nNA, n/a \r\nnull,-\r\n")
    assert table.rows == [["1", None], [None, None], [None, None]]
    assert table.lines == [2, 4, 5]


def test_json_by_objects_and_by_lists() -> None:
    """Both are the same table; what an object does not have is missing."""
    objects = read_table('[{"a": 1, "b": "x"}, {"b": true, "c": null}]')
    assert (objects.names, objects.rows) == (["a", "b", "c"], [["1", "x", None], [None, "true", None]])
    lists = read_table('[["a", "b"], [1, 2.5], [3, null]]')
    assert (lists.names, lists.rows, lists.header) == (["a", "b"], [["1", "2.5"], ["3", None]], True)
    assert read_table("[[1, 2], [3, 4]]").names == ["column 1", "column 2"]


@pytest.mark.parametrize(
    ("text", "said", "meta"),
    [
        ("  \n ", "The table is empty.", {}),
        ("a,b\n", "The table has a header and no rows.", {}),
        ("a,b\n1,2\n\n3\n", "Row 2 (line 4) has 1 cell, the header has 2.", {"row": 2}),
        ('a,b\n1,2\n3,"4\n', "cannot be read as CSV from line 3 on", {}),
        ("x,y,x\n1,2,3\n", 'Columns 1 and 3 are both called "x"', {"column": "x"}),
        (",".join("abcdefgh" * 26) + "\n", "has 208 columns; at most 200", {}),
        ("[1, 2", "begins like JSON and is none", {}),
        ('{"a": [1]}', "a list of objects or a list of lists", {}),
        ("[]", "The table is empty.", {}),
        ("[1]", "Every row must be an object, or a list", {"row": 1}),
        ('[{"a": 1}, [2]]', "Row 2 is no object", {"row": 2}),
        ("[[1, 2], [3]]", "Row 2 has 1 cells", {"row": 2}),
        ('[{"a": 1}, {"a": {}}]', 'Row 2, column "a": a cell is a number', {"row": 2, "column": "a"}),
    ],
)
def test_what_is_no_table_is_named(text: str, said: str, meta: dict[str, object]) -> None:
    """The error says what is wrong and where, for people and for programs."""
    with pytest.raises(PermanentError) as caught:
        read_table(text)
    assert said in caught.value.message
    assert (caught.value.code, caught.value.hint, caught.value.meta) == ("bad_table", "check_input_and_retry", meta)


@given(
    st.integers(2, 4).flatmap(lambda width: st.lists(st.lists(words, min_size=width, max_size=width), min_size=2)),
    st.sampled_from(",;\t|"),
)
def test_what_was_written_is_read(rows: list[list[str]], delimiter: str) -> None:
    """Whatever the cells hold, quoted cells come back as they were."""
    names = [f"n{position}" for position in range(len(rows[0]))]
    text = StringIO()
    csv.writer(text, delimiter=delimiter).writerows([names, *rows])
    by_csv = read_table(text.getvalue())
    by_json = read_table(json.dumps([dict(zip(names, row, strict=True)) for row in rows]))
    assert by_csv.rows == by_json.rows == rows
    assert by_csv.names == by_json.names == names


@given(st.lists(figures, min_size=1), st.sampled_from([".", ","]))
def test_numbers_are_read_with_either_mark(values: list[float], mark: str) -> None:
    """A column of numbers is read as the numbers it was written from."""
    cells = [repr(value).replace(".", mark) for value in values]
    read = read_numbers(cells, comma_first=mark == ",")
    assert (read.values, read.wrong) == (values, [])


@pytest.mark.parametrize(
    ("cell", "point", "comma"),
    [
        ("1'234.5", 1234.5, None),
        ("1 234,5", None, 1234.5),
        ("1,234,567.8", 1234567.8, None),
        ("1.234.567,8", None, 1234567.8),
        ("\u22123", -3, -3),
        (".5", 0.5, None),
        ("1e3", 1000, 1000),
        ("1e999", None, None),
        ("inf", None, None),
        ("12a", None, None),
        ("1_000", None, None),
    ],
)
def test_ways_of_writing_a_number(cell: str, point: float | None, comma: float | None) -> None:
    """Groups of thousands by comma, point, space or apostrophe; what cannot be computed with is none."""
    assert (number(cell, "."), number(cell, ",")) == (point, comma)


def test_a_column_has_one_mark() -> None:
    """The mark that fits more of the cells counts for all of them."""
    assert read_numbers(["1,234", "1,234.50"], comma_first=True).values == [1234, 1234.5]
    assert read_numbers(["1,234", "1,5"], comma_first=False).values == [1.234, 1.5]
