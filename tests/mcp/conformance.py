"""`make mcp-conformance`: the conformance suite of the protocol against a real server.

The suite is an npm package. It needs Node.js 22; where the machine has an older one, that is installed beside it, in
`runtime/mcp-conformance`. Every failed check must be one of those below, each of which has its reason.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.server import ROOT, serving

PACKAGE = "@modelcontextprotocol/conformance@0.2.0-alpha.12"
NODE = "node@22"
_NODE_VERSION = 22
FOLDER = ROOT / "runtime" / "mcp-conformance"
MODERN, LEGACY = "2026-07-28", "2025-11-25"
SETTINGS = {"LANGLAUF_MCP_INLINE": "0.8"}
TASKS = (
    "tasks-lifecycle",
    "tasks-capability-negotiation",
    "tasks-wire-fields",
    "tasks-request-state-removal",
    "tasks-mrtr-input",
    "tasks-request-headers",
    "tasks-dispatch-and-envelope",
    "tasks-status-notifications",
    "tasks-required-task-error",
    "tasks-mrtr-composition",
)

_ASKS = "A job cannot ask its caller anything yet."
_NO_PROMPTS = "There are no prompts: the capability is not declared."
_NO_COMPLETION = "Arguments are not completed: the capability is not declared."
_OWN_URIS = "Resources are results of jobs; there is no fixed one under test://."
_NO_TOOL_HEADERS = "No analysis asks for its arguments in headers."
_NO_LOGGING = "Nothing is logged to clients: the capability is not declared."
#: Checks that fail, by scenario or by scenario and check, with the reason.
EXPECTED = {
    "server-stateless sep-2575-server-rejects-undeclared-capability": _ASKS,
    "server-stateless sep-2575-missing-capability-http-400": _ASKS,
    "server-stateless sep-2575-http-server-no-independent-requests-on-stream": _ASKS,
    "tasks-mrtr-input": _ASKS,
    "tasks-mrtr-composition": _ASKS,
    "input-required-result": _ASKS,
    "tools-call-sampling": _ASKS,
    "tools-call-elicitation": _ASKS,
    "elicitation": _ASKS,
    "prompts": _NO_PROMPTS,
    "caching sep-2549-prompts-list-caching-hints": _NO_PROMPTS,
    "completion-complete": _NO_COMPLETION,
    "resources-read-text": _OWN_URIS,
    "resources-read-binary": _OWN_URIS,
    "resources-templates-read": _OWN_URIS,
    "resources-subscribe": "Without sessions there are no subscriptions for clients with a handshake.",
    "resources-unsubscribe": "Without sessions there are no subscriptions for clients with a handshake.",
    "http-custom-header-server-validation": _NO_TOOL_HEADERS,
    "json-schema-2020-12": "Input schemas follow from type hints, which have no such keywords.",
    "logging-set-level": _NO_LOGGING,
    "tools-call-with-logging": _NO_LOGGING,
}


def main() -> int:
    """Run the suite, print what failed and why that is so, and return whether anything else failed."""
    node = _installed()
    with tempfile.TemporaryDirectory() as folder, _server(Path(folder)) as url:
        found: list[tuple[str, str, str]] = []
        for words in (
            ["--suite", "all", "--spec-version", MODERN],
            *(["--scenario", name] for name in TASKS),
            ["--suite", "all", "--spec-version", LEGACY],
        ):
            found += _run(node, url, words, Path(folder))
    failed = [(scenario, check) for scenario, check, status in found if status == "FAILURE"]
    passed = sum(status == "SUCCESS" for *_, status in found)
    unexpected = [one for one in failed if _reason(*one) is None]
    for scenario, check in failed:
        print(f"{scenario} {check}: {_reason(scenario, check) or 'FAILED'}")
    print(f"{passed} checks passed, {len(failed) - len(unexpected)} failed as expected, {len(unexpected)} failed.")
    return 1 if unexpected or not passed else 0


def _reason(scenario: str, check: str) -> str | None:
    """Return why a check is expected to fail; never for one that compares messages with the schema."""
    if check == "wire-schema-valid":
        return None
    named = EXPECTED.get(f"{scenario} {check}")
    return named or next((reason for name, reason in EXPECTED.items() if scenario.startswith(name)), None)


@contextmanager
def _server(folder: Path) -> Iterator[str]:
    """Serve the tools that the suite asks for."""
    with serving(folder / "s.db", app="tests.mcp.conformance_app:app", settings=SETTINGS) as server:
        yield f"{server.url}/mcp"


def _installed() -> list[str]:
    """Install the suite where it is missing, and return the command that runs it."""
    npm = shutil.which("npm")
    if npm is None:
        sys.exit("make mcp-conformance needs Node.js and npm.")
    script = FOLDER / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
    own = FOLDER / "node_modules/.bin/node"
    shown = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout
    version = re.match(r"v(\d+)", shown)
    recent = version is not None and int(version[1]) >= _NODE_VERSION
    if not script.exists() or not (recent or own.exists()):
        FOLDER.mkdir(parents=True, exist_ok=True)
        packages = [PACKAGE] if recent else [PACKAGE, NODE]
        subprocess.run([npm, "install", "--silent", "--prefix", str(FOLDER), *packages], check=True)
    return ["node" if recent else str(own), str(script)]


def _run(command: list[str], url: str, words: list[str], folder: Path) -> list[tuple[str, str, str]]:
    """Run scenarios, and return scenario, id and status of each check."""
    output = folder / "-".join(words).replace("/", "_")
    subprocess.run(
        [*command, "server", "--url", url, *words, "-o", str(output)], capture_output=True, check=False, timeout=600
    )
    found = []
    for report in sorted(output.glob("*/checks.json")):
        scenario = re.sub(r"-\d{4}-\d\d-\d\dT.*", "", report.parent.name).removeprefix("server-")
        found += [(scenario, check["id"], check["status"]) for check in json.loads(report.read_text())]
    return found


if __name__ == "__main__":
    sys.exit(main())
