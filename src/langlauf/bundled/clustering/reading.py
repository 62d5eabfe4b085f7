"""A text becomes a table: JSON where it begins like JSON, else CSV."""

from .csv_text import read_csv
from .errors import bad_table
from .json_text import read_json
from .table import Table


def read_table(text: str) -> Table:
    """The table, or PermanentError `bad_table`."""
    known = text.removeprefix("\ufeff")
    table = read_json(known) if known.lstrip()[:1] in {"[", "{"} else read_csv(known)
    if not table.rows:
        raise bad_table("The table has a header and no rows.")
    return table
