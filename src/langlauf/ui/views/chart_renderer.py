"""Renders charts in another process, one at a time, with a timeout and a cache, and reads the values of their marks."""

import asyncio
import hashlib
import html
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

from langlauf.ui.language import Language
from langlauf.ui.views.chart_spec import ChartTheme, theme_config

# -- values of a rendered chart ----------------------------------------------------------------------------------------

MAX_VALUES = 400
#: More values than this cannot be stepped through; the table below the chart has them.
MAX_FOCUSABLE = 40
_MAX_LABEL = 120
#: A mark that is smaller is hard to hit.
_MIN_SIDE = 12.0
_TOKEN = re.compile(r"<(/?)(g|path)\b([^>]*?)(/?)>")
_ATTRIBUTE = re.compile(r'([\w-]+)="([^"]*)"')
_TRANSLATE = re.compile(r"translate\((-?[0-9.e-]+),(-?[0-9.e-]+)\)")
_STEP = re.compile(r"([MLHVCSQTAZmlhvcsqtaz])([^MLHVCSQTAZmlhvcsqtaz]*)")
_NUMBER = re.compile(r"-?[0-9]*\.?[0-9]+(?:e-?[0-9]+)?")
#: How many numbers a command takes; its last two are where it ends.
_TAKES = {"M": 2, "L": 2, "C": 6, "S": 4, "Q": 4, "T": 2, "A": 7}
#: Lines and areas have one mark for all their values.
_WHOLE_MARKS = ("line mark", "area mark")


class ChartValue(msgspec.Struct, frozen=True, kw_only=True):
    """A mark: its box in the image, and its values in words."""

    x: float
    y: float
    width: float
    height: float
    text: str


def chart_values(svg: str) -> list[ChartValue]:
    """Return the marks of a chart, one per place; none where it has more than people can look at."""
    found: dict[tuple[float, float], ChartValue] = {}
    at = [(0.0, 0.0)]
    for token in _TOKEN.finditer(svg):
        closing, tag, rest, alone = token.groups()
        if closing:
            if tag == "g" and len(at) > 1:
                at.pop()
            continue
        attributes = dict(_ATTRIBUTE.findall(rest))
        place = _moved(at[-1], attributes.get("transform", ""))
        if tag == "g":
            if not alone:
                at.append(place)
        elif _is_value(attributes) and (value := _value(attributes, place)) is not None:
            found.setdefault((round(value.x), round(value.y)), value)
            if len(found) > MAX_VALUES:
                return []
    return list(found.values())


def _is_value(attributes: dict[str, str]) -> bool:
    kind = attributes.get("aria-roledescription", "")
    return bool(attributes.get("aria-label")) and kind not in _WHOLE_MARKS and not kind.startswith(("axis", "legend"))


def _moved(at: tuple[float, float], transform: str) -> tuple[float, float]:
    found = _TRANSLATE.search(transform)
    return at if found is None else (at[0] + float(found[1]), at[1] + float(found[2]))


def _value(attributes: dict[str, str], at: tuple[float, float]) -> ChartValue | None:
    corners = _corners(attributes.get("d", ""))
    if not corners:
        return None
    left, right = min(x for x, _ in corners), max(x for x, _ in corners)
    top, bottom = min(y for _, y in corners), max(y for _, y in corners)
    width, height = max(right - left, _MIN_SIDE), max(bottom - top, _MIN_SIDE)
    text = html.unescape(attributes["aria-label"])
    return ChartValue(
        x=round(at[0] + (left + right - width) / 2, 1),
        y=round(at[1] + (top + bottom - height) / 2, 1),
        width=round(width, 1),
        height=round(height, 1),
        text=text if len(text) <= _MAX_LABEL else text[: _MAX_LABEL - 1] + "…",
    )


def _corners(path: str) -> list[tuple[float, float]]:
    """Return where the commands of a path end."""
    x = y = 0.0
    corners = []
    for command, rest in _STEP.findall(path):
        numbers = [float(number) for number in _NUMBER.findall(rest)]
        relative, kind = command.islower(), command.upper()
        if kind in ("H", "V"):
            for number in numbers:
                x, y = (_to(x, number, relative), y) if kind == "H" else (x, _to(y, number, relative))
                corners.append((x, y))
        elif kind in _TAKES:
            takes = _TAKES[kind]
            for end in range(takes, len(numbers) + 1, takes):
                x, y = _to(x, numbers[end - 2], relative), _to(y, numbers[end - 1], relative)
                corners.append((x, y))
    return corners


def _to(now: float, number: float, relative: bool) -> float:
    return now + number if relative else number


# -- renderer ----------------------------------------------------------------------------------------------------------

_PROGRAM = Path(__file__).with_name("chart_process.py")
#: Environment variables that the process needs to find its libraries; it gets no secrets.
_ENVIRONMENT = ("PATH", "PYTHONPATH", "HOME", "LANG", "TZ", "LD_LIBRARY_PATH")
_START_SECONDS = 30.0
RENDER_SECONDS = 8.0
#: How long a page waits for one chart, including those queued before it.
_WAIT_SECONDS = 20.0
_MAX_WAITING = 16
_MAX_CACHED = 64
_MAX_SVG_BYTES = 2 * 1024 * 1024
_MAX_SIDE = 8_000
#: JSON may escape a character with six.
_MAX_ANSWER_BYTES = 6 * _MAX_SVG_BYTES + 1024
#: How long a failure is cached.
_FAILURE_CACHE_SECONDS = 60.0
_LENGTH_BYTES = 4
_SVG_SIZE = re.compile(r'<svg [^>]*?\bwidth="([0-9.]+)" height="([0-9.]+)"')

#: Why there is no image: library missing, timeout, invalid specification, too large, or too many in the queue.
ChartTrouble = Literal["missing", "slow", "broken", "large", "busy"]


class RenderedChart(msgspec.Struct, frozen=True):
    """An SVG image and its size."""

    svg: bytes
    width: int
    height: int
    #: what its marks stand for, and where they are
    values: list[ChartValue] = []


class ChartFailure(msgspec.Struct, frozen=True):
    """The reason why a chart was not rendered."""

    trouble: ChartTrouble


class ChartRenderer:
    """Renders charts in one child process and caches the images."""

    def __init__(self, seconds: float = RENDER_SECONDS, patience: float = _WAIT_SECONDS) -> None:
        self._seconds = seconds
        self._patience = patience
        self._hand = _ChartProcess()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="charts")
        self._kept = _ChartCache()
        self._waiting = 0
        weakref.finalize(self, self._hand.stop)

    async def draw(self, spec: dict[str, Any], theme: ChartTheme, language: Language) -> RenderedChart | ChartFailure:
        """Render a specification that `safe_spec` returned, with numbers as the reader writes them."""
        thousands, decimal = language.separators
        numbers = {"decimal": decimal, "thousands": thousands, "grouping": [3], "currency": ["", ""]}
        request = json.dumps({"spec": spec, "config": theme_config(theme), "numbers": numbers}).encode()
        key = hashlib.sha256(request).hexdigest()
        if (known := self._kept.get(key)) is not None:
            return known
        if not charts_installed():
            return ChartFailure("missing")
        if self._waiting >= _MAX_WAITING:
            return ChartFailure("busy")
        self._waiting += 1
        try:
            # A timeout gives up the place in the queue; a rendering that has begun is finished and cached.
            async with asyncio.timeout(self._patience):
                return await asyncio.wrap_future(self._thread.submit(self._rendered, key, request))
        except TimeoutError:
            return ChartFailure("busy")
        finally:
            self._waiting -= 1

    def _rendered(self, key: str, request: bytes) -> RenderedChart | ChartFailure:
        known = self._kept.get(key)  # another request may have rendered it meanwhile
        return known if known is not None else self._kept.add(key, self._hand.draw(request, self._seconds))


class _ChartCache:
    """The images rendered last, and recent failures."""

    def __init__(self) -> None:
        self._rendered: OrderedDict[str, tuple[RenderedChart | ChartFailure, float]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str) -> RenderedChart | ChartFailure | None:
        with self._lock:
            found, until = self._rendered.get(key, (None, 0.0))
            if found is None or time.monotonic() >= until:
                return None
            self._rendered.move_to_end(key)
            return found

    def add(self, key: str, drawn: RenderedChart | ChartFailure) -> RenderedChart | ChartFailure:
        with self._lock:
            until = time.monotonic() + _FAILURE_CACHE_SECONDS if isinstance(drawn, ChartFailure) else math.inf
            self._rendered[key] = (drawn, until)
            while len(self._rendered) > _MAX_CACHED:
                self._rendered.popitem(last=False)
        return drawn


class _ChartProcess:
    """The child process. It starts on first use and is killed at a timeout."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def draw(self, request: bytes, seconds: float) -> RenderedChart | ChartFailure:
        with self._lock:
            for _ in range(2):  # a process that has exited since is only noticed when writing to it
                fresh = self._process is None
                try:
                    process = self._process or self._start()
                    answer = _send_request(process, request, seconds)
                except TimeoutError:
                    self._end()
                    return ChartFailure("slow")
                except OSError:
                    self._end()
                    continue
                if answer:
                    return _parse_answer(json.loads(answer))
                self._end()
                if fresh:
                    break
            return ChartFailure("broken")

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
        _wait_started(self._process)
        return self._process

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()
            self._process = None


def _wait_started(process: subprocess.Popen[bytes]) -> None:
    """Wait until the libraries are loaded, which does not count as rendering time."""
    if process.stdout is None:
        raise OSError("a process without pipes")
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout.fileno(), selectors.EVENT_READ)
        if (
            len(_read_exactly(selector, process.stdout.fileno(), _LENGTH_BYTES, time.monotonic() + _START_SECONDS))
            < _LENGTH_BYTES
        ):
            raise OSError("the process that draws did not start")


def _send_request(process: subprocess.Popen[bytes], request: bytes, seconds: float) -> bytes:
    """Send a request and return the whole answer; empty where the process exited."""
    if process.stdin is None or process.stdout is None:
        raise OSError("a process without pipes")
    into, out = process.stdin.fileno(), process.stdout.fileno()
    deadline = time.monotonic() + seconds
    os.set_blocking(into, False)
    left = len(request).to_bytes(_LENGTH_BYTES, "big") + request
    with selectors.DefaultSelector() as selector:
        selector.register(into, selectors.EVENT_WRITE)
        while left:
            _wait_ready(selector, deadline)
            left = left[os.write(into, left) :]
        selector.unregister(into)
        selector.register(out, selectors.EVENT_READ)
        head = _read_exactly(selector, out, _LENGTH_BYTES, deadline)
        count = int.from_bytes(head, "big")
        if count > _MAX_ANSWER_BYTES:
            raise OSError("an answer that no chart has")
        return _read_exactly(selector, out, count, deadline) if len(head) == _LENGTH_BYTES else b""


def _read_exactly(selector: selectors.BaseSelector, out: int, count: int, deadline: float) -> bytes:
    found = b""
    while len(found) < count:
        _wait_ready(selector, deadline)
        part = os.read(out, count - len(found))
        if not part:
            return b""
        found += part
    return found


def _wait_ready(selector: selectors.BaseSelector, deadline: float) -> None:
    if not selector.select(max(0.0, deadline - time.monotonic())):
        raise TimeoutError


def _parse_answer(answer: dict[str, Any]) -> RenderedChart | ChartFailure:
    if "large" in answer:
        return ChartFailure("large")
    svg = answer.get("svg", "").encode()
    size = _SVG_SIZE.search(answer.get("svg", "")[:2_000])
    if size is None:
        return ChartFailure("broken")
    width, height = (round(float(side)) for side in size.groups())
    if len(svg) > _MAX_SVG_BYTES or max(width, height) > _MAX_SIDE:
        return ChartFailure("large")
    return RenderedChart(svg, width, height, chart_values(answer["svg"]))


@cache
def charts_installed() -> bool:
    """Whether the extra `charts` is installed."""
    return find_spec("vl_convert") is not None


@cache
def chart_renderer() -> ChartRenderer:
    """Return the renderer of this process."""
    return ChartRenderer()
