"""The documents name the indexes, tables and views that the stores have."""

import re

import pytest

from tests.docs.pages import pages, read, rows, sections, words
from tests.support.schema_dump import dump

HEADING = "Partial indexes only"
#: What the sources ask for, by name, and what they ask for without one.
SOURCES = (
    "idx_jobs_org_status_updated",
    "idx_jobs_status_priority_queued",
    "idx_jobs_result_id",
    "idx_job_events_job_occurred",
    "idx_job_events_type_occurred",
    "idx_job_results_job_seq",
    "idx_job_results_created",
    "idx_notifications_job_channel",
    "idx_notifications_delivery_status",
    "idx_reading_jobs_timeout_detection",
    "idx_reading_jobs_retry_eligible",
    "idx_reading_jobs_error_code",
)
UNNAMED = ("unique (`job_id`, `event_seq`)", "unique (`job_id`) of finals")
#: The column of the table, and the schema as it was written down; tests of each store compare that with the store.
STORES = {
    "sqlite": (1, dump()),
    "postgres": (2, read("tests/postgres/schema.txt")),
}


def _indexes(schema: str) -> set[str]:
    return set(re.findall(r"\bidx_\w+", schema))


def test_every_index_of_the_sources_is_accounted_for() -> None:
    """Each has its row, and no other has one."""
    first = [cells[0] for cells in rows(sections("docs/design.md")[HEADING])]
    assert sorted(first) == sorted([*(f"`{name}`" for name in SOURCES), *UNNAMED])


@pytest.mark.parametrize("store", STORES)
def test_the_table_says_which_indexes_a_store_has(store: str) -> None:
    """One that a store has is named as what answers its question, and one that it has not is not."""
    column, schema = STORES[store]
    found = _indexes(schema)
    assert len(found) > 20
    for cells in rows(sections("docs/design.md")[HEADING]):
        answers = words(cells[column])
        assert answers, cells[0]
        for name in answers:
            assert name in found or re.search(rf"\b{name}\b", schema), (cells[0], name)
        wanted = cells[0].strip("`").replace("idx_reading_jobs_", "idx_jobs_")
        if wanted.startswith("idx_"):
            assert (wanted in found) == (answers == [wanted]), cells[0]


def test_a_left_out_index_is_said_to_be_left_out() -> None:
    """Where neither store has it, the row begins with that."""
    found = set.union(*(_indexes(schema) for _, schema in STORES.values()))
    for cells in rows(sections("docs/design.md")[HEADING]):
        wanted = cells[0].strip("`").replace("idx_reading_jobs_", "idx_jobs_")
        if wanted.startswith("idx_"):
            assert (wanted in found) != cells[3].startswith("Left out."), cells[0]


def test_no_document_names_an_index_or_a_table_of_rows_that_is_not_there() -> None:
    """Names of what a store keeps its rows in are easily left behind."""
    there = " ".join(schema for _, schema in STORES.values())
    known = {*SOURCES, *re.findall(r"\b(?:idx_\w+|\w+_rows)\b", there)}
    named = {name for page in pages() for name in words(page.read_text("utf-8"))}
    rather = {name for name in named if re.fullmatch(r"idx_\w+|(?:job|event|result|chunk|key|lane)_rows", name)}
    assert "event_rows" in rather
    assert rather <= known
