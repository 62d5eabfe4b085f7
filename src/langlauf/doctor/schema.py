"""The schema: this program's, and as the migrations made it."""

from langlauf.doctor.check import Check, Needs
from langlauf.doctor.findings import Seen, fine, some, wrong
from langlauf.doctor.patient import Patient


def schema_version(patient: Patient) -> Seen:
    seen = patient.examiner.schema()
    if seen.found > seen.known:
        words = f"the store has schema {seen.found}, this program knows {seen.known}: a newer program was here"
        return wrong(words, "pip install --upgrade langlauf")
    if seen.found < seen.known:
        return wrong(f"the store has schema {seen.found}, this program needs {seen.known}", patient.command("migrate"))
    if seen.copied_from is not None:
        words = f"a copy of {seen.copied_from} into this store has not come to its end"
        return wrong(words, f"langlauf copy-store {seen.copied_from} {patient.place.shown}")
    return fine(f"schema {seen.found}")


def schema_objects(patient: Patient) -> Seen:
    changed = patient.examiner.changed_objects()
    if changed:
        return wrong(some(changed), patient.command("verify"))
    return fine("as the migrations made them")


CHECKS = (
    Check(
        "schema_version",
        Needs.STORE,
        "The schema is this program's, and no copy into the store is under way.",
        schema_version,
    ),
    Check(
        "schema_objects",
        Needs.ROWS,
        "Every table, index, trigger, function and policy is there as it was made.",
        schema_objects,
    ),
)
