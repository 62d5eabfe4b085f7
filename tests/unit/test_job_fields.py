"""One table of a job's fields: what stands in it is everywhere, and no other file has to be told."""

from datetime import datetime
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from langlauf.client.models import JobSummary
from langlauf.domain.job import (
    JOB_FIELDS,
    VISIBLE_FIELDS,
    CanceledBy,
    JobRecord,
    VisibleJob,
    is_time_field,
    unconstrained_type,
)
from langlauf.store.sqlite.connection import MEMORY, migrate, open_connection
from tests.support.extra_field import CHANGES, NOTE, ask, program_with_a_note

SOURCE = Path(__file__).parents[2] / "src" / "langlauf"


def test_a_new_field_takes_three_files_and_a_line_of_the_reference(tmp_path: Path) -> None:
    """A program with a field more keeps it, shows it, describes it, exports, imports and copies it."""
    assert len({name for name, _, _ in CHANGES}) == 3
    told = ask(program_with_a_note(tmp_path), f"sqlite:///{tmp_path}/store.db", tmp_path)
    shape = told.pop("document")
    assert told == dict.fromkeys(("wire", "client", "export", "copy"), NOTE)
    assert {one["type"] for one in shape["anyOf"]} == {"string", "null"}


def test_this_program_knows_no_such_field(tmp_path: Path) -> None:
    """What the test above finds comes from those files: without them there is nothing to be found."""
    told = ask(SOURCE.parent, f"sqlite:///{tmp_path}/store.db", tmp_path)
    assert told == dict.fromkeys(("wire", "client", "export", "copy", "document"))


def test_every_field_is_a_column_of_the_file() -> None:
    """One that is read is also brought: the view and what is behind it have the same fields."""
    connection = open_connection(MEMORY)
    try:
        migrate(connection)
        columns = {str(row[1]) for row in connection.execute("PRAGMA table_info(jobs)")}
        [(brought,)] = connection.execute("SELECT sql FROM sqlite_schema WHERE name = 'jobs_are_brought'").fetchall()
    finally:
        connection.close()
    assert set(JOB_FIELDS) <= columns
    assert [name for name in JOB_FIELDS if f"NEW.{name}" not in str(brought)] == []


def test_what_clients_see_comes_first() -> None:
    """The wire takes the first fields of a job."""
    assert JOB_FIELDS[: len(VISIBLE_FIELDS)] == VISIBLE_FIELDS
    assert len(JOB_FIELDS) > len(VISIBLE_FIELDS)


def test_times_are_called_by_their_ending() -> None:
    """A field is a time by its type just where its name says so."""
    seen = msgspec.structs.fields(VisibleJob[datetime, dict[str, Any]])
    times = {
        field.name
        for field in seen
        if datetime in (unconstrained_type(field.type), *get_args(unconstrained_type(field.type)))
    }
    assert times == {name for name in VISIBLE_FIELDS if is_time_field(name)}
    numbers = {
        field.name: unconstrained_type(field.type)
        for field in msgspec.structs.fields(JobRecord)
        if is_time_field(field.name)
    }
    assert all(int in (kind, *get_args(kind)) for kind in numbers.values())


@pytest.mark.parametrize("word", [*get_args(CanceledBy), "robot"])
def test_a_client_reads_words_that_it_does_not_know(word: str) -> None:
    """A newer server may have more of them; what an older one does not send is as if there were none of it."""
    always = {field.name for field in msgspec.structs.fields(JobSummary) if field.required}
    known: dict[str, Any] = dict.fromkeys(always, "x") | {
        **dict.fromkeys((name for name in always if is_time_field(name)), "2026-03-01T12:00:00Z"),
        "status": "canceled",
        "max_retries": 3,
        "timeout_seconds": 1.5,
        "canceled_by": word,
        "result_url": None,
    }
    job = msgspec.convert(known, JobSummary)
    assert (job.canceled_by, job.step, job.progress_percent) == (word, None, 0)


@pytest.mark.parametrize(
    "file",
    [
        *("api/record_schemas.py", "api/wire.py", "client/models.py"),
        *("store/sql.py", "store/tools/store_copy.py", "store/tools/verify.py"),
        *("compat/v1_records.py", "compat/v1_json.py", "store/postgres/functions/02_records.sql"),
    ],
)
def test_plumbing_names_no_field_that_is_only_kept_and_shown(file: str) -> None:
    """Whoever adds a field need not look there."""
    kept_and_shown = {"held_by", "hold_reason", "limit_reached", "last_retry_at", "retry_reason", "crash_count"}
    text = (SOURCE / file).read_text("utf-8")
    assert kept_and_shown <= set(JOB_FIELDS)
    assert [name for name in sorted(kept_and_shown) if name in text] == []
