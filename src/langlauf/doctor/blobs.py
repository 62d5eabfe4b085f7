"""Large results outside of the store: there for every row that names one, and none that no row names."""

from langlauf.doctor.check import Check, Needs
from langlauf.doctor.findings import Seen, fine, odd, some, unknown, wrong
from langlauf.doctor.patient import Patient
from langlauf.domain.errors import PayloadUnavailable
from langlauf.store.blobs.large import is_garbage

_SAMPLE, _ALL = 50, 10_000_000
_SAMPLE_KEYS = 1_000
_AT_ONCE = 500


def blobs_missing(patient: Patient) -> Seen:
    named = patient.examiner.blobs(_ALL if patient.deep else _SAMPLE)
    if not named:
        return fine("no result lies outside of the store")
    if patient.payloads is None:
        words = f"results of {named[0].org_id} and others lie outside of the store, and LANGLAUF_BLOBS is not set"
        return wrong(words, "export LANGLAUF_BLOBS=URL")
    folder = patient.examiner.blob_folder() or "none"
    lost = []
    for one in named:
        try:
            patient.payloads.read(folder, one.org_id, one.job_id, one.ref)
        except PayloadUnavailable as error:
            lost.append(f"result {one.result_id}: {error}")
    if lost:
        return wrong(some(lost, 2), patient.command("verify"))
    return fine(f"{len(named)} looked at, all there")


def blobs_owner(patient: Patient) -> Seen:
    folder = patient.examiner.blob_folder()
    mark = None if patient.payloads is None or folder is None else patient.payloads.owner(folder)
    if mark is None:
        return fine("no server has started on blobs yet")
    here = patient.examiner.blob_owner()
    if here is None or not mark.covers(here):
        words = (
            f"they belong to the store {mark.place}: no server starts here; where that store is gone, take them over"
        )
        return wrong(words, patient.command("blobs", "take-over"))
    return fine("this store")


def blobs_orphaned(patient: Patient) -> Seen:
    if patient.payloads is None:
        return fine("LANGLAUF_BLOBS is not set")
    folder = patient.examiner.blob_folder()
    if folder is None:
        return fine("the store never had any")
    try:
        most, age = _ALL if patient.deep else _SAMPLE_KEYS, patient.settings.blob_garbage_age
        places = patient.payloads.places(folder, most=most, min_age=age)
    except PayloadUnavailable as error:
        return unknown(str(error))
    orphans = 0
    for start in range(0, len(places), _AT_ONCE):
        page = places[start : start + _AT_ONCE]
        kept = patient.examiner.kept_payloads(sorted({(place.org_id, place.job_id) for place in page}))
        orphans += sum(is_garbage(place, kept.get((place.org_id, place.job_id))) for place in page)
    if orphans:
        return odd(f"{orphans} of {len(places)} belong to no row any more", patient.command("cleanup"))
    return fine(f"{len(places)} looked at, each has its row")


CHECKS = (
    Check(
        "blobs_missing",
        Needs.ROWS,
        "The results outside of the store that the last 50 ended jobs name are whole; with `--deep`, all.",
        blobs_missing,
    ),
    Check("blobs_owner", Needs.ROWS, "The results outside of the store belong to this store.", blobs_owner),
    Check(
        "blobs_orphaned",
        Needs.ROWS,
        "Of 1,000 blobs each belongs to a row, or to a job that has not ended; with `--deep` of all.",
        blobs_orphaned,
    ),
)
