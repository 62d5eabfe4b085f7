"""Runs wrk, a load generator that costs little beside what it measures."""

import re
import subprocess
from pathlib import Path

from bench.context import Context

_UNITS = {"us": 0.001, "ms": 1.0, "s": 1_000.0, "m": 60_000.0}
CONNECTIONS = 32


def run(context: Context, url: str, *, script: Path | None = None, seconds: int | None = None) -> dict[str, float]:
    """Ask a URL on 32 connections; return requests per second and latencies. Answers that are no success are errors."""
    if context.wrk is None:
        raise RuntimeError("wrk is not installed")
    words = ["-c", str(CONNECTIONS), "-t", "1", "-d", f"{seconds or context.seconds}s", "--latency"]
    if script is not None:
        words += ["-s", str(script)]
    said = subprocess.run([context.wrk, *words, url], capture_output=True, text=True, check=True, timeout=120).stdout
    if failed := re.search(r"Non-2xx or 3xx responses: (\d+)", said):
        raise RuntimeError(f"{failed[1]} answers were no success")
    rate = re.search(r"Requests/sec:\s+([\d.]+)", said)
    if rate is None:
        raise RuntimeError(f"wrk said: {said[-300:]}")
    return {"per_second": float(rate[1]), "p50_ms": _latency(said, "50%"), "p99_ms": _latency(said, "99%")}


def _latency(said: str, share: str) -> float:
    found = re.search(rf"{share}\s+([\d.]+)(us|ms|s|m)\b", said)
    return float(found[1]) * _UNITS[found[2]] if found else 0.0
