"""Which columns are compared, and what is said of the others."""

import pytest

from langlauf.bundled.clustering.columns import select_columns
from langlauf.bundled.clustering.table import read_table
from langlauf.domain.errors import PermanentError

TABLE = "id;name;size;kind;same;note;gone;half\n" + "".join(
    f"{row};n{row};{row % 7},5;{'ab'[row % 2]};x;text {row} of many;;{'1' if row < 9 else ''}\n" for row in range(30)
)


def test_numbers_and_small_categories_are_compared() -> None:
    """Names, counters, constants and mostly empty columns are not, and the choice says why."""
    choice = select_columns(read_table(TABLE), None)
    assert [(column.name, column.kind) for column in choice.used] == [("size", "number"), ("kind", "category")]
    assert {each.column: each.reason for each in choice.left_out} == {
        "id": "numbers the rows",
        "name": "holds 30 different texts",
        "same": "has the same value in every row",
        "note": "holds 30 different texts",
        "gone": "is empty",
        "half": "is empty in 21 of 30 rows",
    }
    assert choice.notes == ["Read with a decimal comma: size."]
    assert choice.row_names is not None
    assert choice.row_names[:2] == ["0", "1"]


def test_columns_asked_for_are_taken() -> None:
    """A counter is compared if it is named."""
    assert [column.name for column in select_columns(read_table(TABLE), ["id", "size", "id"]).used] == ["id", "size"]


def test_a_first_column_without_a_name_may_count_the_rows() -> None:
    """Where it goes up by one it does, as data frames write it; other whole numbers are a measure like any."""
    tables = [",a\n0,5\n1,7\n2,6\n", "10,5\n12,7\n11,6\n"]
    used = [[column.name for column in select_columns(read_table(table), None).used] for table in tables]
    assert used == [["a"], ["column 1", "column 2"]]


@pytest.mark.parametrize(
    ("text", "asked", "said"),
    [
        (TABLE, ["siez"], 'has no column "siez"; did you mean "size"?'),
        (TABLE, ["note"], 'Column "note" holds 30 different texts; at most 12 can be compared.'),
        (TABLE, ["same"], 'No column can be compared: "same" has the same value in every row.'),
        ("a,b\n1,2\n2,3\n3,4\n4,x\n5,6\n6,7\n", None, 'Row 4 (line 5), column "b": "x" is no number'),
        ("[[1,2],[2,3],[3,4],[4,1e101],[5,5]]", None, 'column "column 2": "1e+101" is no number up to 1e+100'),
        ("a,b\n1,2\n2,3\n3,4\n4,x\n5,6\n6,y\n7,1\n8,1\n9,1\n10,1\n", ["b"], "(1 more cells of this column"),
    ],
)
def test_what_cannot_be_compared_is_named(text: str, asked: list[str] | None, said: str) -> None:
    """By column, and by row where one cell is the reason."""
    with pytest.raises(PermanentError) as caught:
        select_columns(read_table(text), asked)
    assert said in caught.value.message
    assert caught.value.code == "bad_table"
