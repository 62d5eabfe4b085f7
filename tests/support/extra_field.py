"""A copy of this program whose jobs have one more field, and the places where a value of that field comes out.

`python -m tests.support.extra_field URL FOLDER`, run by the copy, stores a job with a note in a store and prints every
shape in which the note was found.
"""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

import langlauf
from langlauf.api.openapi.document import build_document
from langlauf.api.wire import ApiLinks, job_out
from langlauf.bootstrap import open_store_at
from langlauf.bundled import app
from langlauf.client.models import JobSummary
from langlauf.compat.v1_export import export_from
from langlauf.compat.v1_import import import_into
from langlauf.domain.job import JobRecord, Phase
from langlauf.hints import Hints
from langlauf.service.read import DerivedFields
from langlauf.store.tools.drivers import copy_store
from langlauf.store.tools.location import parse_location
from tests.support.submissions import read_job
from tests.support.v1_store import earlier_store

NOTE = "weighed twice"
_SQLITE, _POSTGRES = "store/sqlite/migrations/0001_store.sql", "store/postgres/migrations/0001_tables.sql"
#: All that a new field takes, behind an old one: file, what is there, what stands there then.
CHANGES = (
    ("domain/job.py", r"^( *)hold_reason: .*\n", r'\g<0>\1trial_note: Annotated[str | None, "A note."] = None\n'),
    (_SQLITE, r"^( *)hold_reason +TEXT,\n", r"\g<0>\1trial_note TEXT,\n"),
    (_SQLITE, r"\bjob\.hold_reason,", r"\g<0> job.trial_note,"),
    (_SQLITE, r"\bheld_by, hold_reason,", r"\g<0> trial_note,"),
    (_SQLITE, r"\bNEW\.hold_reason,", r"\g<0> NEW.trial_note,"),
    (_POSTGRES, r"^( *)hold_reason +text,\n", r"\g<0>\1trial_note text,\n"),
)


def program_with_a_note(folder: Path) -> Path:
    """A copy of this program whose jobs have a note; returns where Python finds it."""
    package = Path(langlauf.__file__).parent
    copy = shutil.copytree(package, folder / "src" / "langlauf")
    for name, there, then in CHANGES:
        text, count = re.subn(there, then, (copy / name).read_text("utf-8"), flags=re.MULTILINE)
        assert count == 1, (name, there)
        (copy / name).write_text(text, "utf-8")
    return copy.parent


def ask(program: Path, url: str, folder: Path) -> dict[str, Any]:
    """Lets that program bring a job to a store; returns what it told."""
    command = [sys.executable, "-m", "tests.support.extra_field", url, str(folder)]
    surroundings = {**os.environ, "PYTHONPATH": str(program)}
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, env=surroundings, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


async def _read(url: str) -> JobRecord:
    store = await open_store_at(parse_location(url), Hints())
    try:
        return (await read_job(store, "j1", "default-org")).job
    finally:
        await store.close()


def _exported(url: str) -> Any:
    pieces: list[bytes] = []
    export_from(parse_location(url), pieces.append)
    return json.loads(b"".join(pieces))["jobs"]["j1"]


def main(url: str, folder: Path) -> None:
    """Tells where the note of a job came out."""
    earlier, copied = folder / "earlier.json", f"sqlite:///{folder}/copied.db"
    earlier.write_text(json.dumps(earlier_store(trial_note=NOTE, analysis="address")))
    import_into(parse_location(url), earlier, default_analysis="address")
    copy_store(parse_location(url), parse_location(copied), running=False, watch=lambda *_: None)
    wire = msgspec.json.encode(
        job_out(asyncio.run(_read(url)), DerivedFields(Phase.WAITING, None, 1), ApiLinks("/analyze"))
    )
    told = {
        "wire": json.loads(wire).get("trial_note"),
        "client": msgspec.to_builtins(msgspec.json.decode(wire, type=JobSummary)).get("trial_note"),
        "export": _exported(url).get("trial_note"),
        "copy": _exported(copied).get("trial_note"),
        "document": build_document(app.registry)["components"]["schemas"]["JobOut"]["properties"].get("trial_note"),
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
