"""SQL of the stores: named queries, numbered migrations, and rows as records."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from importlib import resources
from operator import itemgetter
from typing import Any, NamedTuple, cast

import msgspec

from langlauf.domain.access import ApiKey, Scope
from langlauf.domain.delivery import Delivery, Notification, Subject, Subscription, WebhookEndpoint
from langlauf.domain.errors import SchemaTooNew
from langlauf.domain.event import Event, EventType
from langlauf.domain.health import WorkerReport
from langlauf.domain.job import JOB_FIELDS, JobRecord
from langlauf.domain.provenance import CodeVersion
from langlauf.domain.read_models import JobView
from langlauf.domain.result import Snapshot
from langlauf.domain.schedule import SCHEDULE_FIELDS, Pause, Schedule
from langlauf.domain.state import Status

# -- named queries -----------------------------------------------------------------------------------------------------
# A query starts with a line `-- name: what_it_does` and runs to the next one. `{job_columns}` and its like stand for
# the fields of a record, so that a query and the record it fills cannot drift apart. What queries of a package have in
# common is in its `parts.sql`: `{name}` stands for that text, `{name:x}` for it with x in place of {0}, and
# `{name:x|y}` for both with UNION ALL in between.

_QUERY_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_PART = re.compile(r"\{(\w+)(?::([^{}]*))?\}")
_PARTS_FILE = "parts.sql"
COMMENT = re.compile(r"^ *--.*\n", re.MULTILINE)
#: A bar between two values of a part; two bars join texts.
_BAR = re.compile(r"(?<!\|)\|(?!\|)")
_RECORDS: dict[str, type[msgspec.Struct]] = {
    "job": JobRecord,
    "event": Event,
    "snapshot": Snapshot,
    "notification": Notification,
    "key": ApiKey,
    "worker": WorkerReport,
    "pause": Pause,
    "schedule": Schedule,
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
        texts[f"{{{word}_typed}}"] = ", ".join(f"{name} {word}s.{name}%TYPE" for name in fields)
    return texts


def fill_placeholders(text: str) -> str:
    """Return SQL with placeholders replaced by the fields of records."""
    for placeholder, columns in _placeholders().items():
        text = text.replace(placeholder, columns)
    return text


def parse_queries(text: str) -> dict[str, str]:
    """Return the queries of a file by name, placeholders filled in."""
    parts = _QUERY_NAME.split(fill_placeholders(text))[1:]
    found: dict[str, str] = {}
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        if name in found:
            raise ValueError(f"two queries are called {name}")
        # Without comments: the driver compares texts at every execution to find the prepared statement.
        found[name] = COMMENT.sub("", body).strip().rstrip(";")
    return found


@cache
def load_queries(package: str, *files: str) -> dict[str, str]:
    """Return the queries of one or more files that lie in a package; read once in a process."""
    folder = resources.files(package)
    shared = folder.joinpath(_PARTS_FILE)
    parts = parse_queries(shared.read_text("utf-8")) if shared.is_file() else {}
    return parse_queries(put_in("\n".join(folder.joinpath(file).read_text("utf-8") for file in files), parts))


def put_in(text: str, parts: Mapping[str, str]) -> str:
    """Return SQL with the texts of parts in their places."""

    def part_of(found: re.Match[str]) -> str:
        part = parts.get(found[1])
        if part is None:
            return found[0]
        return "\nUNION ALL\n".join(put_in(part.replace("{0}", x), parts) for x in _BAR.split(found[2] or ""))

    return _PART.sub(part_of, text)


# -- migrations --------------------------------------------------------------------------------------------------------

_MIGRATION_FILE = re.compile(r"^(\d{4})_(\w+)\.sql$")


class Migration(NamedTuple):
    """One step of the schema's history."""

    number: int
    name: str
    sql: str


def migrations_in(package: str) -> list[Migration]:
    """Return the migrations of a driver's package, in order, without a gap."""
    found = sorted(
        Migration(int(match[1]), match[2], file.read_text("utf-8"))
        for file in resources.files(package).joinpath("migrations").iterdir()
        if (match := _MIGRATION_FILE.match(file.name))
    )
    if [step.number for step in found] != list(range(1, len(found) + 1)):
        raise ValueError(f"the migrations of {package} are not numbered 1, 2, 3 …")
    return found


def pending_migrations(known: list[Migration], applied: int) -> list[Migration]:
    """Return the steps that are still to do; a store from a newer program is refused."""
    if applied > len(known):
        raise SchemaTooNew(
            f"the store has schema {applied}, this program knows {len(known)}: start the newer program instead"
        )
    return known[applied:]


# -- rows --------------------------------------------------------------------------------------------------------------

_encode = msgspec.json.Encoder().encode
_VIEW_FIELDS = (*JOB_FIELDS, "lease_expires_at")
_view_by_name = itemgetter(*_VIEW_FIELDS)
_STATUSES = {one.value: one for one in Status}
_EVENT_TYPES = {one.value: one for one in EventType}
_EVENT_FIELDS = len(Event.__struct_fields__)
_EVENT_TYPE = Event.__struct_fields__.index("event_type")


def json_text(value: Any) -> str:
    """Return a value of this program as JSON text."""
    return _encode(value).decode()


def job_from(row: Sequence[Any]) -> JobRecord:
    """Return a job from its columns in the order of the table. A null column has its default."""
    values = {name: value for name, value in zip(JOB_FIELDS, row, strict=True) if value is not None}
    values["status"] = _STATUSES[values["status"]]
    if "retryable" in values:
        values["retryable"] = bool(values["retryable"])
    return JobRecord(**values)


def view_from(row: Sequence[Any]) -> JobView:
    """Return a job from its columns, and the end of its lease behind them."""
    return JobView(job_from(row[:-1]), row[-1])


def view_from_database(row: Mapping[str, Any]) -> JobView:
    """Return a job from a row of the database's view, by name: a later release may have added columns."""
    return view_from(_view_by_name(row))


def view_reader(like: Mapping[str, Any]) -> Callable[[Sequence[Any]], JobView]:
    """Return a function that does the same for rows with the columns of this one, whose names are looked up once."""
    columns = _columns_of_view(tuple(like.keys()))
    return lambda row: view_from(columns(row))


@lru_cache(4)
def _columns_of_view(names: tuple[str, ...]) -> "itemgetter[tuple[Any, ...]]":
    places = {name: place for place, name in enumerate(names)}
    return itemgetter(*(places[name] for name in _VIEW_FIELDS))


def event_from(row: Sequence[Any]) -> Event:
    """Return an event from its columns, ignoring columns of the driver behind them."""
    values = list(row)[:_EVENT_FIELDS]
    values[_EVENT_TYPE] = _EVENT_TYPES[values[_EVENT_TYPE]]
    return Event(*values)


def subjects_text(subjects: Sequence[str]) -> str:
    """Return the subjects of an endpoint as one text with a comma before and after each word."""
    return f",{','.join(subjects)},"


def endpoint_from(row: Sequence[Any]) -> WebhookEndpoint:
    """Return an endpoint from its columns and, behind them, the state of its lane."""
    org_id, endpoint_id, url, name, subjects, created_at, version, former_until, disabled_at, reason, *lane = row
    failures, failing_since, paused_until = lane
    return WebhookEndpoint(
        org_id=org_id,
        endpoint_id=endpoint_id,
        url=url,
        name=name,
        subjects=cast("tuple[Subject, ...]", tuple(word for word in subjects.split(",") if word)),
        created_at=created_at,
        version=version,
        former_until=former_until,
        disabled_at=disabled_at,
        disabled_reason=reason,
        failures=failures,
        failing_since=failing_since,
        paused_until=paused_until,
    )


_DELIVERY = tuple(name for name in Delivery.__struct_fields__ if name != "lane_failures")


def delivery_from(row: Sequence[Any], lane_failures: int) -> Delivery:
    """Return a claimed message from its columns, which are in the order of its fields."""
    return Delivery(**dict(zip(_DELIVERY, row, strict=True)), lane_failures=lane_failures)


def subscription_from(row: Sequence[Any]) -> Subscription:
    """Return a subscription of a job from its columns."""
    channel, target, lane, language = row
    return Subscription(channel=channel, target=target, lane=lane, language=language)


_PAUSED = SCHEDULE_FIELDS.index("paused")


def schedule_from(row: Sequence[Any]) -> Schedule:
    """Return a schedule from its columns, which are in the order of its fields."""
    values = list(row)
    values[_PAUSED] = bool(values[_PAUSED])
    return Schedule(**dict(zip(SCHEDULE_FIELDS, values, strict=True)))


_SCOPES = ApiKey.__struct_fields__.index("scopes")


def scopes_text(scopes: Iterable[Scope]) -> str:
    """Return scopes as one text."""
    return " ".join(sorted(scopes))


def key_from(row: Sequence[Any]) -> ApiKey:
    """Return a key from its columns."""
    values = list(row)
    values[_SCOPES] = frozenset(Scope(word) for word in values[_SCOPES].split())
    return ApiKey(**dict(zip(ApiKey.__struct_fields__, values, strict=True)))


def pause_from(row: Sequence[Any]) -> Pause:
    """Return a pause from its columns."""
    return Pause(**dict(zip(Pause.__struct_fields__, row, strict=True)))
