"""Loads named queries from a `.sql` file.

A query starts with a line `-- name: what_it_does` and runs to the next one. `{job_columns}` and its like stand for the
fields of a record, so that a query and the record it fills cannot drift apart.
"""

import re
from functools import cache
from importlib import resources

import msgspec

from langlauf.domain.access import ApiKey
from langlauf.domain.delivery import Notification
from langlauf.domain.event import Event
from langlauf.domain.health import WorkerReport
from langlauf.domain.job import JobRecord
from langlauf.domain.provenance import CodeVersion
from langlauf.domain.result import Snapshot
from langlauf.domain.schedule import Pause

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_COMMENT = re.compile(r"^ *--.*\n", re.MULTILINE)
_RECORDS: dict[str, type[msgspec.Struct]] = {
    "job": JobRecord,
    "event": Event,
    "snapshot": Snapshot,
    "notification": Notification,
    "key": ApiKey,
    "worker": WorkerReport,
    "pause": Pause,
    "code": CodeVersion,
}


@cache
def _placeholders() -> dict[str, str]:
    texts = {}
    for word, record in _RECORDS.items():
        fields = record.__struct_fields__
        texts[f"{{{word}_columns}}"] = ", ".join(f"{word}.{name}" for name in fields)
        texts[f"{{{word}_names}}"] = ", ".join(fields)
        texts[f"{{{word}_named}}"] = ", ".join(f":{name}" for name in fields)
    return texts


def filled(text: str) -> str:
    """Return SQL with placeholders replaced by the fields of records."""
    for placeholder, columns in _placeholders().items():
        text = text.replace(placeholder, columns)
    return text


def parse(text: str) -> dict[str, str]:
    """Return the queries of a file by name, placeholders filled in."""
    parts = _NAME.split(filled(text))[1:]
    found: dict[str, str] = {}
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        if name in found:
            raise ValueError(f"two queries are called {name}")
        # Without comments: the driver compares texts at every execution to find the prepared statement.
        found[name] = _COMMENT.sub("", body).strip().rstrip(";")
    return found


@cache
def load(package: str, *files: str) -> dict[str, str]:
    """Return the queries of one or more files that lie in a package; read once in a process."""
    folder = resources.files(package)
    return parse("\n".join(folder.joinpath(file).read_text("utf-8") for file in files))
