"""The reference pages say what the code says: settings, routes, codes, events, commands, names, dependencies."""

import inspect
import re
import tomllib
from pathlib import Path

import click
import pytest

import langlauf
from langlauf import client
from langlauf.api.openapi.document import build_document
from langlauf.app import Rules
from langlauf.bundled import app
from langlauf.domain.job import Phase
from langlauf.domain.state import Status, mermaid
from langlauf.ui.routes import page_routes
from tests.docs.pages import ROOT, read, rows, sections, words
from tests.docs.reference_tables import CLIENT_FLAGS, SERVER_FLAGS, commands
from tests.support.live import live


def test_every_route_has_its_section() -> None:
    """Each method and path of the OpenAPI document has a heading, and each such heading is a route."""
    paths = build_document(app.registry)["paths"]
    known = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    documented = {title for title in sections("docs/http_api.md") if re.match(r"[A-Z]+ /", title)}
    assert "POST /analyze" in known
    assert documented == known


def test_every_route_is_in_the_overview() -> None:
    """The table on top of the page links each of them."""
    paths = build_document(app.registry)["paths"]
    overview = read("docs/http_api.md").partition("## What holds everywhere")[0]
    assert paths
    for path, methods in paths.items():
        for method in methods:
            assert f"[`{method.upper()} {path}`](#" in overview


def test_every_parameter_of_a_route_is_named() -> None:
    """Query parameters stand in the section of their route, headers anywhere on the page."""
    page, found = read("docs/http_api.md"), 0
    for path, methods in build_document(app.registry)["paths"].items():
        for method, operation in methods.items():
            text = sections("docs/http_api.md")[f"{method.upper()} {path}"]
            for parameter in operation["parameters"]:
                found += 1
                if parameter["in"] == "query":
                    assert f"?{parameter['name']}=" in text, (path, parameter["name"])
                elif parameter["in"] == "header":
                    assert parameter["name"] in page, parameter["name"]
    assert found > 30


def test_every_page_is_in_the_table(tmp_path: Path) -> None:
    """Each address that a person may open, what pages are made of aside."""
    with live(tmp_path) as running:
        routes = page_routes(running.app._current())
    known = {route.path for route in routes if not route.path.startswith("/static/")}
    documented = {word for cells in rows(sections("docs/http_api.md")["Pages"]) for word in words(cells[0])}
    assert "/" in known
    assert documented == known


def test_every_state_and_phase_is_explained() -> None:
    """The tables have exactly the words of the code, and the diagram is the one the code prints."""
    parts = sections("docs/lifecycle.md")
    assert [words(cells[0])[0] for cells in rows(parts["States"])] == list(Status)
    assert [words(cells[0])[0] for cells in rows(parts["Phases"])] == list(Phase)
    assert f"```mermaid\n{mermaid()}\n```" in read("docs/lifecycle.md")


COMMANDS = commands()


def _flags(command: click.Command) -> set[str]:
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    return {name for option in options for name in (*option.opts, *option.secondary_opts)}


def _documented_flags(text: str) -> set[str]:
    return {word for cells in rows(text) for word in words(cells[0]) if word.startswith("-")}


def test_every_command_has_its_section() -> None:
    """Each command that is registered, and no other."""
    documented = {title.strip("`") for title in sections("docs/commands.md") if title.startswith("`langlauf ")}
    assert "langlauf serve" in COMMANDS
    assert documented == set(COMMANDS)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_flag_of_a_command_is_documented(name: str) -> None:
    """Each flag stands in the command's section or in the one it shares, and no flag is made up."""
    parts, known = sections("docs/commands.md"), _flags(COMMANDS[name])
    own = _documented_flags(parts[f"`{name}`"])
    shared = _documented_flags(parts[SERVER_FLAGS]) | _documented_flags(parts[CLIENT_FLAGS])
    assert shared, "the shared sections were not found"
    assert known - own - shared == set()
    assert own - known == set()


def test_the_shared_flags_exist() -> None:
    """What the shared sections list is a flag of some command of their kind."""
    parts = sections("docs/commands.md")
    servers = _flags(COMMANDS["langlauf serve"]) | _flags(COMMANDS["langlauf worker"])
    assert _documented_flags(parts[SERVER_FLAGS]) == servers
    assert _documented_flags(parts[CLIENT_FLAGS]) == {"--url", "--org", "--key"}
    assert _documented_flags(parts[CLIENT_FLAGS]) <= _flags(COMMANDS["langlauf submit"])


def test_every_command_is_in_the_changelog() -> None:
    """A user of the first version reads there what it has."""
    text = read("CHANGELOG.md")
    for name in COMMANDS:
        assert f"`{name.removeprefix('langlauf ')}`" in text, name


def test_every_dependency_has_its_reason() -> None:
    """What pyproject asks for, at run time, as an extra and for development, is in the tables of the design page."""
    project = tomllib.loads(read("pyproject.toml"))
    extras = project["project"]["optional-dependencies"].values()
    groups = project["dependency-groups"].values()
    wanted = [*project["project"]["dependencies"], *(one for many in (*extras, *groups) for one in many)]
    names = {match[0] for text in wanted if isinstance(text, str) and (match := re.match(r"[\w-]+", text))}
    table = rows(sections("docs/design.md")["Dependencies, each with its reason"])
    documented = {word for cells in table for word in words(cells[0])}
    assert len(names) > 10
    assert documented == names - {"langlauf"}


def test_the_order_of_packages_is_the_one_that_is_checked() -> None:
    """The design page shows the layers of import-linter, from the top to the bottom."""
    contracts = tomllib.loads(read("pyproject.toml"))["tool"]["importlinter"]["contracts"]
    [layers] = [one["layers"] for one in contracts if one["type"] == "layers"]
    shown = " -> ".join(layer.replace("langlauf.", "").replace(" | ", ", ") for layer in layers)
    assert shown in " ".join(read("docs/design.md").split())


def test_every_public_name_is_in_the_python_page() -> None:
    """What `from langlauf import …` offers is explained."""
    table = rows(read("docs/python.md").partition("## Register an analysis")[0])
    assert sorted(words(cells[0])[0] for cells in table) == sorted(langlauf.__all__)


def test_every_rule_of_an_analysis_is_in_the_python_page() -> None:
    """The table has exactly what `@app.analysis` takes."""
    table = rows(sections("docs/python.md")["Register an analysis"])
    assert sorted(words(cells[0])[0] for cells in table) == sorted(Rules.__annotations__)


def _public(kind: type) -> list[str]:
    return [name for name, _ in inspect.getmembers(kind) if not name.startswith("_")]


def test_every_method_of_the_handle_is_in_the_python_page() -> None:
    """The author of an analysis finds all that the handle can do."""
    names, text = _public(langlauf.Job), sections("docs/python.md")["The handle"]
    assert "checkpoint" in names
    for name in names:
        assert f"job.{name}" in text, name


@pytest.mark.parametrize("kind", [client.Client, client.RemoteJob])
def test_every_method_of_the_client_is_in_the_python_page(kind: type) -> None:
    """The caller of a server finds all that the client can do; `close` is what `with` does."""
    names, text = _public(kind), sections("docs/python.md")["The client"]
    assert len(names) > 5
    for name in names:
        assert f"`{name}(" in text or f"`{name}`" in text or name == "close", name


def test_the_two_commands_that_matter_are_there() -> None:
    """The README names `make run` and `make test`, and every `make …` of the documents is a target."""
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert "`make run`" in read("README.md")
    assert "`make test`" in read("README.md")
    named = {name for page in ("README.md", "CONTRIBUTING.md") for name in re.findall(r"\bmake ([a-z]+) ", read(page))}
    assert {"run", "test"} <= named & targets
    assert {"run", "test", "bench", "help"} - targets == set()
