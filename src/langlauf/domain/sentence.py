"""Sentences that Langlauf itself writes as the message of an error.

Each is stored twice: as an English message, and by its name and values in `error_meta`, so that pages can say it in
another language. What an analysis wrote has no name here, whatever its words are.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

from langlauf.domain.errors import LanglaufError

#: Members of `error_meta` that only Langlauf writes: the sentence, and the type of an exception that is not its own.
SENTENCE = "sentence"
ERROR_TYPE = "error_type"
OWN_FACTS = (SENTENCE, ERROR_TYPE)

#: By name. A value is a text or a number; the functions of PostgreSQL write the first three, too.
SENTENCES: Mapping[str, str] = {
    "timed_out": "The attempt was stopped after {seconds:g} s, its time limit.",
    "worker_vanished": "The worker vanished {times} times while this job ran.",
    "process_died": "The job was given up after {deaths} deaths of its process; at last {how}.",
    "canceled_itself": "The analysis canceled itself.",
    "ended_program": "The analysis tried to end the program: {error}.",
    "unreadable_error": "{error}, which cannot be shown",
    "several_errors": "{count} errors: {detail}",
    "input_outdated": "The stored input no longer fits the analysis: {detail}",
    "earlier_result_unreadable": "The result of an earlier job cannot be read at the moment.",
    "end_refused": "The store refused how the attempt ended.",
    "process_not_started": "A process could not be started: {detail}.",
    "not_importable": (
        "{reference} cannot be imported in the process that should run it ({detail}): "
        "install the application there, in the version of the worker."
    ),
    "too_large": "the value has {bytes:,} bytes, the limit is {limit:,}",
    "larger_than": "the value has more than the {limit:,} bytes that are allowed",
    "unstorable": "{detail}",
    "dask_unreachable": "The Dask scheduler at {address} cannot be reached; is it running?",
    "dask_lost": "The Dask cluster at {address} was lost while it computed a chunk.",
    "dask_incompatible": (
        "The Dask cluster at {address} cannot run chunks ({detail}): install langlauf, in the version of this worker, "
        "on all workers of the cluster, and restart them."
    ),
    "dask_main_program": (
        "{function} is defined in the main program, where a Dask worker cannot import it: "
        "move it to a module that is installed on the cluster."
    ),
    "dask_other_version": (
        "A Dask worker has another version of langlauf than the worker: install the same version on both."
    ),
}

Raised = TypeVar("Raised", bound=LanglaufError)


def sentence_text(name: str, /, **values: Any) -> str:
    """Return a sentence in English."""
    return SENTENCES[name].format(**values)


def sentence_meta(name: str, /, **values: Any) -> dict[str, Any]:
    """Return the member of `error_meta` that names a sentence and its values."""
    return {SENTENCE: {"name": name, **values}}


def error_saying(kind: type[Raised], name: str, /, **values: Any) -> Raised:
    """Return an exception whose message is one of these sentences."""
    error = kind(sentence_text(name, **values))
    error.own_facts = sentence_meta(name, **values)
    return error
