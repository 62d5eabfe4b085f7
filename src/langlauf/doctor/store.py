"""Checks of any store: its schema, its clock and its blobs."""

from langlauf.doctor.check import Check, CheckResult, Needs, error, join_first, ok, unknown, warning
from langlauf.doctor.target import DoctorTarget
from langlauf.domain.errors import PayloadUnavailable
from langlauf.domain.health import CLOCK_SKEW
from langlauf.domain.instant import seconds_between
from langlauf.store.blobs.large import is_garbage


def schema_version(target: DoctorTarget) -> CheckResult:
    facts = target.inspector.schema()
    if facts.found > facts.known:
        message = (
            f"the store has schema {facts.found}, this program knows {facts.known}: a newer version has migrated it"
        )
        return error(message, "pip install --upgrade langlauf")
    if facts.found < facts.known:
        return error(f"the store has schema {facts.found}, this program needs {facts.known}", target.command("migrate"))
    if facts.copied_from is not None:
        message = f"a copy of {facts.copied_from} into this store is not complete"
        return error(message, f"langlauf copy-store {facts.copied_from} {target.place.shown}")
    return ok(f"schema {facts.found}")


def schema_objects(target: DoctorTarget) -> CheckResult:
    changed = target.inspector.changed_objects()
    if changed:
        return error(join_first(changed), target.command("verify"))
    return ok("as the migrations created them")


def clock(target: DoctorTarget) -> CheckResult:
    facts = target.clock
    apart = seconds_between(facts.machine, facts.store)
    message = f"the store is {abs(apart):.1f} s {'ahead of' if apart > 0 else 'behind'} this machine"
    limit = max(CLOCK_SKEW.threshold, target.settings.lease_seconds / 10) + facts.doubt_seconds
    if abs(apart) > CLOCK_SKEW.bad_threshold:
        return error(message, CLOCK_SKEW.remedy)
    return warning(message, CLOCK_SKEW.remedy) if abs(apart) > limit else ok(message)


CHECKS = (
    Check(
        "schema_version",
        Needs.STORE,
        "The schema is of this version, and no copy into the store is under way.",
        schema_version,
    ),
    Check(
        "schema_objects",
        Needs.ROWS,
        "Every table, index, trigger, function and policy is as the migrations created it.",
        schema_objects,
    ),
    Check(
        "clock",
        Needs.ROWS,
        "The store's clock and this machine's are at most 2 s or a tenth of a lease apart; a minute is an error.",
        clock,
    ),
)


_SAMPLE, _ALL = 50, 10_000_000
_SAMPLE_KEYS = 1_000
_PAGE_SIZE = 500


def blobs_missing(target: DoctorTarget) -> CheckResult:
    named = target.inspector.blobs(_ALL if target.deep else _SAMPLE)
    if not named:
        return ok("no result is stored outside")
    if target.payloads is None:
        message = f"results of {named[0].org_id} and others are blobs, and LANGLAUF_BLOBS is not set"
        return error(message, "export LANGLAUF_BLOBS=URL")
    folder = target.inspector.blob_folder() or "none"
    lost = []
    for one in named:
        try:
            target.payloads.read(folder, one.org_id, one.job_id, one.ref)
        except PayloadUnavailable as reason:
            lost.append(f"result {one.result_id}: {reason}")
    if lost:
        return error(join_first(lost, 2), target.command("verify"))
    return ok(f"{len(named)} read, all readable")


def blobs_owner(target: DoctorTarget) -> CheckResult:
    folder = target.inspector.blob_folder()
    mark = None if target.payloads is None or folder is None else target.payloads.owner(folder)
    if mark is None:
        return ok("no server has started on blobs yet")
    here = target.inspector.blob_owner()
    if here is None or not mark.covers(here):
        message = (
            f"they belong to the store {mark.place}, so no server starts here; if that store is gone, take them over"
        )
        return error(message, target.command("blobs", "take-over"))
    return ok("this store")


def blobs_orphaned(target: DoctorTarget) -> CheckResult:
    if target.payloads is None:
        return ok("LANGLAUF_BLOBS is not set")
    folder = target.inspector.blob_folder()
    if folder is None:
        return ok("the store never had any")
    try:
        most, age = _ALL if target.deep else _SAMPLE_KEYS, target.settings.blob_garbage_age
        places = target.payloads.places(folder, most=most, min_age=age)
    except PayloadUnavailable as reason:
        return unknown(str(reason))
    orphans = 0
    for start in range(0, len(places), _PAGE_SIZE):
        page = places[start : start + _PAGE_SIZE]
        kept = target.inspector.kept_payloads(sorted({(place.org_id, place.job_id) for place in page}))
        orphans += sum(is_garbage(place, kept.get((place.org_id, place.job_id))) for place in page)
    if orphans:
        return warning(f"{orphans} of {len(places)} belong to no row", target.command("cleanup"))
    return ok(f"{len(places)} checked, each has its row")


BLOB_CHECKS = (
    Check(
        "blobs_missing",
        Needs.ROWS,
        "The blobs of the last 50 ended jobs are readable and complete; with `--deep`, all.",
        blobs_missing,
    ),
    Check("blobs_owner", Needs.ROWS, "The blobs belong to this store.", blobs_owner),
    Check(
        "blobs_orphaned",
        Needs.ROWS,
        "Each of 1,000 blobs belongs to a row, or to a job that has not ended; with `--deep`, of all.",
        blobs_orphaned,
    ),
)
