"""The program of the chart process, which the server can kill. It imports nothing of the package.

Reads requests from stdin and writes answers to stdout, each as its length in four bytes and JSON. Exits when stdin
closes, and after an idle time.
"""

import contextlib
import json
import os
import select
import signal
from typing import Any

_IDLE_SECONDS = 300.0
_MAX_MEMORY_BYTES = 1 << 30
_LENGTH_BYTES = 4
_MAX_SVG_BYTES = 2 * 1024 * 1024
_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Render charts until the input ends."""
    _limit_memory()
    _die_with_parent()
    # A library that prints must not corrupt the answers.
    answers = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    import vl_convert

    _write(answers, bytes(_LENGTH_BYTES))  # ready: from here on rendering takes only as long as the chart
    while (request := _read_request()) is not None:
        try:
            drawn: dict[str, Any] = {
                "svg": vl_convert.vegalite_to_svg(
                    request["spec"],
                    config=request["config"],
                    allowed_base_urls=[],
                    format_locale=request["numbers"],
                )
            }
        except Exception as error:  # noqa: BLE001 - any error is an answer
            drawn = {"error": str(error)}
        if len(drawn.get("svg", "")) > _MAX_SVG_BYTES:
            drawn = {"large": True}
        body = json.dumps(drawn).encode()
        _write(answers, len(body).to_bytes(_LENGTH_BYTES, "big") + body)


def _limit_memory() -> None:
    """Limit the memory, so that a chart that grows without end kills only this process."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (_MAX_MEMORY_BYTES, _MAX_MEMORY_BYTES))


def _die_with_parent() -> None:
    """Die with the parent, so that an endless rendering does not outlive it."""
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))


def _read_request() -> Any:
    ready, _, _ = select.select([0], [], [], _IDLE_SECONDS)
    head = _read_exactly(_LENGTH_BYTES) if ready else b""
    return json.loads(_read_exactly(int.from_bytes(head, "big"))) if len(head) == _LENGTH_BYTES else None


def _read_exactly(count: int) -> bytes:
    found = b""
    while len(found) < count and (part := os.read(0, count - len(found))):
        found += part
    return found


def _write(where: int, body: bytes) -> None:
    while body:
        body = body[os.write(where, body) :]


if __name__ == "__main__":
    main()
