"""Charts become pictures: by another process, one at a time, within a time, and remembered."""

import asyncio
import hashlib
import json
import math
import os
import re
import selectors
import subprocess
import sys
import threading
import time
import weakref
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import msgspec

from langlauf.ui.showing.chart_theme import Theme, config_of

_PROGRAM = Path(__file__).with_name("draughtsman.py")
#: Of our own environment the other process sees what it takes to find its libraries, and no secret.
_ENVIRONMENT = ("PATH", "PYTHONPATH", "HOME", "LANG", "TZ", "LD_LIBRARY_PATH")
_START_SECONDS = 30.0
DRAW_SECONDS = 8.0
#: So long a page waits for one of its charts, those of others before it included.
_PATIENCE = 20.0
_MOST_WAITING = 16
_MOST_KEPT = 64
_LARGEST_SVG = 2 * 1024 * 1024
_LARGEST_SIDE = 8_000
#: In JSON a letter may take six.
_LARGEST_ANSWER = 6 * _LARGEST_SVG + 1024
#: What could not be drawn is tried again after so long.
_FAILED_SECONDS = 60.0
_LENGTH = 4
_SIZE = re.compile(r'<svg [^>]*?\bwidth="([0-9.]+)" height="([0-9.]+)"')

#: Why there is no picture: no library, no time, a flaw in the specification, too much of it, or too much to do.
Trouble = Literal["missing", "slow", "broken", "large", "busy"]


class Drawn(msgspec.Struct, frozen=True):
    """A picture and its size."""

    svg: bytes
    width: int
    height: int


class NotDrawn(msgspec.Struct, frozen=True):
    """There is no picture, and why."""

    trouble: Trouble


class DrawingBoard:
    """Keeps one process that draws, and what it drew."""

    def __init__(self, seconds: float = DRAW_SECONDS, patience: float = _PATIENCE) -> None:
        self._seconds = seconds
        self._patience = patience
        self._hand = _Hand()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="charts")
        self._kept = _Kept()
        self._waiting = 0
        weakref.finalize(self, self._hand.stop)

    async def draw(self, spec: dict[str, Any], theme: Theme) -> Drawn | NotDrawn:
        """The picture of a specification that was found harmless."""
        request = json.dumps({"spec": spec, "config": config_of(theme)}).encode()
        key = hashlib.sha256(request).hexdigest()
        if (known := self._kept.get(key)) is not None:
            return known
        if not charts_installed():
            return NotDrawn("missing")
        if self._waiting >= _MOST_WAITING:
            return NotDrawn("busy")
        self._waiting += 1
        try:
            # Who waits no longer gives up their place; what is being drawn by then is drawn to its end, and kept.
            async with asyncio.timeout(self._patience):
                return await asyncio.wrap_future(self._thread.submit(self._drawn, key, request))
        except TimeoutError:
            return NotDrawn("busy")
        finally:
            self._waiting -= 1

    def _drawn(self, key: str, request: bytes) -> Drawn | NotDrawn:
        known = self._kept.get(key)  # another one may have waited for the same
        return known if known is not None else self._kept.add(key, self._hand.draw(request, self._seconds))


class _Kept:
    """What was drawn last, and what could not be."""

    def __init__(self) -> None:
        self._drawn: OrderedDict[str, tuple[Drawn | NotDrawn, float]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str) -> Drawn | NotDrawn | None:
        with self._lock:
            found, until = self._drawn.get(key, (None, 0.0))
            if found is None or time.monotonic() >= until:
                return None
            self._drawn.move_to_end(key)
            return found

    def add(self, key: str, drawn: Drawn | NotDrawn) -> Drawn | NotDrawn:
        with self._lock:
            until = time.monotonic() + _FAILED_SECONDS if isinstance(drawn, NotDrawn) else math.inf
            self._drawn[key] = (drawn, until)
            while len(self._drawn) > _MOST_KEPT:
                self._drawn.popitem(last=False)
        return drawn


class _Hand:
    """The process that draws. It is started when it is needed, and ended when it takes too long."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def draw(self, request: bytes, seconds: float) -> Drawn | NotDrawn:
        with self._lock:
            for _ in range(2):  # one that has ended by itself since the last time is only found out by writing to it
                fresh = self._process is None
                try:
                    process = self._process or self._start()
                    answer = _exchange(process, request, seconds)
                except TimeoutError:
                    self._end()
                    return NotDrawn("slow")
                except OSError:
                    self._end()
                    continue
                if answer:
                    return _drawn(json.loads(answer))
                self._end()
                if fresh:
                    break
            return NotDrawn("broken")

    def stop(self) -> None:
        with self._lock:
            self._end()

    def _start(self) -> subprocess.Popen[bytes]:
        known = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        self._process = subprocess.Popen(  # noqa: S603 - our own file, with our own interpreter
            [sys.executable, "-P", str(_PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=known,
            start_new_session=True,
        )
        _await_start(self._process)
        return self._process

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()
            self._process = None


def _await_start(process: subprocess.Popen[bytes]) -> None:
    """Its libraries take a while; that is not part of the time for a chart."""
    if process.stdout is None:
        raise OSError("a process without pipes")
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout.fileno(), selectors.EVENT_READ)
        if len(_received(selector, process.stdout.fileno(), _LENGTH, time.monotonic() + _START_SECONDS)) < _LENGTH:
            raise OSError("the process that draws did not start")


def _exchange(process: subprocess.Popen[bytes], request: bytes, seconds: float) -> bytes:
    """Sends a request and waits for the whole answer; nothing where the process ended instead."""
    if process.stdin is None or process.stdout is None:
        raise OSError("a process without pipes")
    into, out = process.stdin.fileno(), process.stdout.fileno()
    deadline = time.monotonic() + seconds
    os.set_blocking(into, False)
    left = len(request).to_bytes(_LENGTH, "big") + request
    with selectors.DefaultSelector() as selector:
        selector.register(into, selectors.EVENT_WRITE)
        while left:
            _await(selector, deadline)
            left = left[os.write(into, left) :]
        selector.unregister(into)
        selector.register(out, selectors.EVENT_READ)
        head = _received(selector, out, _LENGTH, deadline)
        count = int.from_bytes(head, "big")
        if count > _LARGEST_ANSWER:
            raise OSError("an answer that no chart has")
        return _received(selector, out, count, deadline) if len(head) == _LENGTH else b""


def _received(selector: selectors.BaseSelector, out: int, count: int, deadline: float) -> bytes:
    found = b""
    while len(found) < count:
        _await(selector, deadline)
        part = os.read(out, count - len(found))
        if not part:
            return b""
        found += part
    return found


def _await(selector: selectors.BaseSelector, deadline: float) -> None:
    if not selector.select(max(0.0, deadline - time.monotonic())):
        raise TimeoutError


def _drawn(answer: dict[str, Any]) -> Drawn | NotDrawn:
    if "large" in answer:
        return NotDrawn("large")
    svg = answer.get("svg", "").encode()
    size = _SIZE.search(answer.get("svg", "")[:2_000])
    if size is None:
        return NotDrawn("broken")
    width, height = (round(float(side)) for side in size.groups())
    if len(svg) > _LARGEST_SVG or max(width, height) > _LARGEST_SIDE:
        return NotDrawn("large")
    return Drawn(svg, width, height)


@cache
def charts_installed() -> bool:
    """Whether the extra `charts` is there."""
    return find_spec("vl_convert") is not None


@cache
def drawing_board() -> DrawingBoard:
    """The one of this process."""
    return DrawingBoard()
