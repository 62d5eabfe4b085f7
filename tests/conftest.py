"""What tests of several folders share: the two tiers, time limits, what a machine lacks, and servers."""

import gc
import os
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import httpcore2
import hypothesis
import pytest
from hypothesis.internal.conjecture import providers

from langlauf.clock import new_id
from tests.long import TEST_IDS, is_all_long, is_long
from tests.support.postgres import RUN, begin_run, fresh_database, shared_server
from tests.support.process_environment import isolate, same_dispositions
from tests.support.server import ServerProcess, serving
from tests.support.tiers import ALL, SEED_NAME, Missing, choose_seed
from tests.support.time_limit import time_limit

#: Seconds for each of setup, test and teardown: many times what any takes alone on a quiet machine.
LIMIT, LONG_LIMIT = 120, 900

# Every new HTTP client loads all certificates of the system, which takes longer than most tests: once is enough.
httpcore2.default_ssl_context = cache(httpcore2.default_ssl_context)
# Hypothesis would read all source and tests in every runner, for constants to draw. With a fixed seed, an example would
# then also depend on code that has nothing to do with its test, and on which tests ran before in the same process.
if not ALL:
    providers._get_local_constants = lambda: providers._local_constants


def pytest_configure(config: pytest.Config) -> None:
    """Begin the run in the process that leads it: its end is the end of what the run shares."""
    config.addinivalue_line("markers", "limit(seconds): another time limit than the usual one")
    config.addinivalue_line("markers", "long: runs in `make test-all` alone; tests/long.py says which tests are")
    if not hasattr(config, "workerinput"):
        config.add_cleanup(begin_run())
        choose_seed()
    if not getattr(config.option, "numprocesses", None):  # a process that runs tests itself
        home = Path(os.environ[RUN]) / "home"
        home.mkdir(exist_ok=True)
        isolate(home)
    hypothesis.settings.register_profile(
        "langlauf",
        deadline=None,
        derandomize=not ALL,
        database=None,
        print_blob=True,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )
    hypothesis.settings.load_profile("langlauf")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without looking for garbage: what is made stays for the run, and no later search visits it either."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_report_header() -> list[str]:
    """Say which tier this is, and its seed."""
    tier = "everything" if ALL else "without what is long (make test-all, or LANGLAUF_TEST_ALL=1, runs everything)"
    return [f"tests: {tier}", f"seed: {SEED_NAME}={os.environ[SEED_NAME]}"]


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave files with nothing but long tests out of `make test`: imports cost every runner seconds."""
    return True if not ALL and is_all_long(collection_path) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what is long, and leave it out of `make test`."""
    config.stash[TEST_IDS] = frozenset(item.nodeid for item in items)
    for item in items:
        if is_long(item.nodeid):
            item.add_marker("long")
    if not ALL:
        left_out = [item for item in items if item.get_closest_marker("long")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("long")]


@contextmanager
def _limited(item: pytest.Item) -> Iterator[None]:
    """Fail what takes too long, and leave out what this machine cannot run."""
    own = item.get_closest_marker("limit")
    with time_limit(own.args[0] if own else LONG_LIMIT if item.get_closest_marker("long") else LIMIT):
        try:
            yield
        except Missing as missing:
            if ALL:
                raise
            pytest.skip(str(missing))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    with _limited(item):
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    with _limited(item), same_dispositions():
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    with _limited(item):
        yield


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in one line for each thing that is missing what was left out, and where it runs instead."""
    reasons = Counter(report.longrepr[2] for report in terminalreporter.stats.get("skipped", ()))
    for reason, number in reasons.items():
        text = reason.removeprefix("Skipped: ")
        terminalreporter.write_line(
            f"left out: {number} tests. {text} They run in make test-all, which fails without it.", yellow=True
        )


@pytest.fixture(scope="session")
def postgres() -> str:
    """The URL of the PostgreSQL server that all tests of the run share."""
    return shared_server()


@pytest.fixture
def database(postgres: str) -> Iterator[str]:
    """The URL of an empty database of the test's own."""
    with fresh_database(server=postgres) as url:
        yield url


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server with the sample application, for all tests that only need some server."""
    with serving(tmp_path_factory.mktemp("server") / "store.db") as running:
        yield running


@pytest.fixture
def org() -> str:
    """An org of the test's own: nothing of another test is in it."""
    return f"org-{new_id()}"
