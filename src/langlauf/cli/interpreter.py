"""Tuning of the interpreter in every process of `serve` and `worker`, and its end.

Apart from `process.py`: the processes that run jobs load neither the commands nor the stores.
"""

import gc
import os
import sys
import threading
from contextlib import suppress

#: For threads and coroutines of analyses to end, after their attempts were released.
_EXIT_SECONDS = 2.0
#: The writer thread releases the interpreter lock at every statement. With Python's 5 ms it would wait that long for
#: each of them while the event loop is busy, and a batch of a hundred would take seconds.
SWITCH_SECONDS = 0.00001
#: A collection stops all threads, for about a third of a millisecond per thousand objects that it looks at. Requests
#: leave no cycles for it to find: the first number is above what dozens of requests under way hold, as each collection
#: among them would be in vain. Objects are looked at once more a little later, and rarely all of them. From Python 3.14
#: on the second number is the inverse share of old objects that each collection looks at as well.
_GC_THRESHOLDS = (2_000, 100 if sys.version_info >= (3, 14) else 1, 250)


def freeze_garbage() -> None:
    """Exclude loaded objects from garbage collection, which otherwise takes a tenth of the time of requests."""
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


def exit_soon(exit_code: int) -> None:
    """End the process after a short delay, even if threads still run."""

    def end() -> None:
        with suppress(OSError):
            print(  # noqa: T201 - the logging may be closed by now
                "langlauf: threads or coroutines of analyses did not end; exiting without them",
                file=sys.stderr,
                flush=True,
            )
            sys.stdout.flush()
        os._exit(exit_code)

    timer = threading.Timer(_EXIT_SECONDS, end)
    timer.daemon = True
    timer.start()
