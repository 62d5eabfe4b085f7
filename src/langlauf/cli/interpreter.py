"""How the interpreter of a long-running program is tuned, and how it ends although Python waits for every thread."""

import gc
import os
import sys
import threading
from contextlib import suppress

#: For threads and coroutines of analyses to end by themselves, once nothing of theirs counts any more.
_LEAVE_SECONDS = 2.0
#: The thread that writes gives the interpreter lock back at every statement. With Python's 5 ms it waits that long for
#: each of them while the event loop is busy, and a batch of a hundred takes seconds.
SWITCH_SECONDS = 0.0005
_GARBAGE_BEFORE_A_LOOK = 10_000


def freeze_garbage() -> None:
    """Leave what is loaded by now out of the search for garbage, which else takes a tenth of the time of requests."""
    gc.freeze()
    gc.set_threshold(_GARBAGE_BEFORE_A_LOOK)


def leave(exit_code: int) -> None:
    """Makes sure that the program ends soon."""

    def end() -> None:
        with suppress(OSError):
            print(  # noqa: T201 - the logging may be closed by now
                "langlauf: threads or coroutines of analyses did not end; the program ends without them",
                file=sys.stderr,
                flush=True,
            )
            sys.stdout.flush()
        os._exit(exit_code)

    timer = threading.Timer(_LEAVE_SECONDS, end)
    timer.daemon = True
    timer.start()
