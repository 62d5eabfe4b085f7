"""Langlauf beside its peers: `python -m bench [--sections http,polls] [--rounds 3] …`.

Installs what the sections need, starts the services, runs each section in a process of its own with a limit, keeps what
it found in `bench/results.json`, and writes `docs/benchmarks.md` from all that is kept there.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

from bench import page, results, services
from bench.catalogue import GROUPS, SECTIONS, select_sections
from bench.context import Context
from bench.environments import RUNTIME, install
from bench.processes import descendants, kill
from bench.progress import print_progress
from bench.results import Measured

#: A section looks at its limit between two measurements; one that does not come to the next is ended.
_GRACE_SECONDS = 600.0


def main(words: Sequence[str] | None = None) -> int:
    """Measure what was asked for; return 1 where a section found nothing."""
    options = _options(words)
    if options.page:
        page.write(results.load())
        return 0
    if options.capacity:
        from bench.store.capacity_report import show_capacity

        show_capacity(options.capacity)
        return 0
    names = options.sections
    for environment in sorted({one for name in names for one in SECTIONS[name].environments}):
        install(environment)
    RUNTIME.mkdir(parents=True, exist_ok=True)
    failed = []
    with tempfile.TemporaryDirectory(prefix="run-", dir=options.folder or RUNTIME) as folder, ExitStack() as stack:
        context = _context(stack, names, options, folder)
        for name in names:
            measured = _run(name, context)
            if measured is None or not measured.subjects:
                failed.append(name)
                continue
            known = results.load(options.results)
            results.save({**known, name: measured}, options.results)
            if options.results == results.FILE:
                page.write(results.load())
    if failed:
        print_progress(f"nothing was found by {', '.join(failed)}")
    return 1 if failed else 0


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--sections", type=_sections, default="all", help=f"with commas: {', '.join((*SECTIONS, *GROUPS))}"
    )
    parser.add_argument("--rounds", type=int, default=3, help="medians of so many are shown (3)")
    parser.add_argument("--jobs", type=int, help="at most so many jobs of each subject and round, for a quick look")
    parser.add_argument("--seconds", type=int, default=5, help="of each run of wrk (5)")
    parser.add_argument("--sizes", type=_numbers, default=(1_000, 5_000_000), help="rows of growth: 1000,5000000")
    parser.add_argument("--folder", type=Path, help="on the disk that is measured (runtime/bench)")
    parser.add_argument("--json", dest="results", type=Path, default=results.FILE, help="another file for the results")
    parser.add_argument("--page", action="store_true", help="measure nothing, write the page")
    parser.add_argument("--capacity", type=Path, metavar="NEED", help="measure nothing, compute from scaling")
    return parser.parse_args(words)


def _sections(words: str) -> list[str]:
    try:
        return select_sections(words)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _numbers(words: str) -> tuple[int, ...]:
    return tuple(int(word) for word in words.split(","))


def _context(stack: ExitStack, names: Sequence[str], options: argparse.Namespace, folder: str) -> Context:
    """Start what the sections need."""
    needed = {service for name in names for service in SECTIONS[name].services}
    return Context(
        folder=folder,
        rounds=options.rounds,
        jobs=options.jobs,
        seconds=options.seconds,
        sizes=options.sizes,
        postgres=stack.enter_context(services.postgres()) if "postgres" in needed else None,
        redis=stack.enter_context(services.redis(Path(folder) / "redis")) if "redis" in needed else None,
        wrk=services.wrk() if "wrk" in needed else None,
    )


def _run(name: str, context: Context) -> Measured | None:
    """Run a section to its end, or end it with all that it has started."""
    limit = SECTIONS[name].limit_seconds
    print_progress(f"section {name}, at most {limit / 60:.0f} minutes")
    file = context.data / f"{name}.json"
    mine = msgspec.structs.replace(context, limit_seconds=limit)
    command = [sys.executable, "-m", "bench.section_process", name, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        try:
            process.communicate(msgspec.json.encode(mine), timeout=limit + _GRACE_SECONDS)
        except BaseException as error:
            kill(descendants([process.pid]))
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            print_progress(f"section {name} was ended: it did not keep its limit")
    return msgspec.json.decode(file.read_bytes(), type=Measured) if file.exists() else None


if __name__ == "__main__":
    sys.exit(main())
