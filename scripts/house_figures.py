#!/usr/bin/env python3
"""Print figures that show how easy the source tree is to read: modules, file sizes, repeated names, plain words.

Run it anywhere, with any Python from 3.11 on; it needs nothing but the files:

    python scripts/house_figures.py                 # this clone
    python scripts/house_figures.py ../other/clone  # another tree
    python scripts/house_figures.py --json --names  # for a program, with the names behind each figure

The figures are signs, not limits: a module that is a concept stays a module.
"""

import argparse
import ast
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "langlauf"
SMALL_MODULE = 60
LONG_FILE = 300
VAGUE_WORDS = re.compile(r"\b(?:whoever|nobody|somebody)\b", re.IGNORECASE)
#: `nobody` in backticks is the user of that name on Unix.
CODE_SPAN = re.compile(r"`[^`\n]*`")
DATABASE_FUNCTION = re.compile(r"^\s*CREATE\s+(?:OR\s+REPLACE\s+)?FUNCTION\s+([\w.]+)", re.IGNORECASE | re.MULTILINE)
#: Nouns of the field that end like a gerund.
NOUNS = {"clustering", "paging", "routing", "string", "tracing", "keyring", "ring", "setting", "mapping"}


class Module(NamedTuple):
    """A Python file of the package, parsed."""

    name: str
    path: Path
    lines: int
    tree: ast.Module


class Figure(NamedTuple):
    """A number, and the names behind it."""

    title: str
    value: int
    names: list[str]


def main() -> None:
    """Print one line per figure, or one JSON object."""
    parser = argparse.ArgumentParser(description="Print figures that show how easy the source tree is to read.")
    parser.add_argument("tree", nargs="?", type=Path, default=ROOT, help="Root of a clone. Default: this one.")
    parser.add_argument("--json", action="store_true", help="Print one JSON object.")
    parser.add_argument("--names", action="store_true", help="Print the names behind each figure, too.")
    options = parser.parse_args()
    figures = measure(options.tree)
    if options.json:
        print(json.dumps({key: one.value for key, one in figures.items()} | _names(figures, options.names), indent=2))
        return
    for one in figures.values():
        print(f"{one.value:>7,}  {one.title}")
        for name in one.names if options.names else ():
            print(f"           {name}")


def _names(figures: dict[str, Figure], wanted: bool) -> dict[str, dict[str, list[str]]]:
    return {"names": {key: one.names for key, one in figures.items() if one.names}} if wanted else {}


def measure(root: Path) -> dict[str, Figure]:
    """Measure a tree; the keys are those of `--json`."""
    source = root / "src" / PACKAGE
    modules = [_parse(path, source.parent) for path in sorted(source.rglob("*.py"))]
    sql = sorted(source.rglob("*.sql"))
    documents = [*root.glob("*.md"), *root.glob("docs/**/*.md")]
    vague = _vague_words([*(one.path for one in modules), *sql, *sorted(documents)], root)
    longest = max(((len(line), path) for path in documents for line in _prose(path)), default=(0, root))
    return {
        "modules": Figure("modules", len(modules), []),
        "file_p95": Figure("lines: p95 of module size", _percentile([one.lines for one in modules], 0.95), []),
        "long_files": _listed(
            f"modules over {LONG_FILE} lines",
            [f"{one.name} {one.lines}" for one in modules if one.lines > LONG_FILE],
        ),
        "small_with_one_importer": _listed(
            f"modules with one importer and under {SMALL_MODULE} lines", _small_with_one_importer(modules)
        ),
        "repeated_classes": _listed("class names defined more than once", _repeated_classes(modules)),
        "gerund_modules": _listed("modules named by a gerund", [one.name for one in modules if _is_gerund(one)]),
        "repeated_functions": _listed("database functions defined more than once", _repeated_functions(sql)),
        "vague_words": Figure(
            "uses of whoever, nobody, somebody in source and documents",
            sum(vague.values()),
            [f"{count} {path}" for path, count in vague.most_common()],
        ),
        "longest_document_line": Figure(
            "characters: longest line of a document", longest[0], [str(longest[1].relative_to(root))]
        ),
        "store_lines": Figure(
            "lines of Python and SQL in store/",
            sum(_count_lines(path) for path in (source / "store").rglob("*") if path.suffix in {".py", ".sql"}),
            [],
        ),
    }


def _listed(title: str, names: list[str]) -> Figure:
    return Figure(title, len(names), names)


def _parse(path: Path, base: Path) -> Module:
    text = path.read_text("utf-8")
    parts = path.relative_to(base).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return Module(name, path, text.count("\n"), ast.parse(text))


def _count_lines(path: Path) -> int:
    return path.read_text("utf-8").count("\n")


def _percentile(values: list[int], share: float) -> int:
    return sorted(values)[int(share * (len(values) - 1))] if values else 0


def _small_with_one_importer(modules: list[Module]) -> list[str]:
    """Return modules that could be part of their only importer; packages and entry points are none."""
    known = {one.name for one in modules}
    importers: dict[str, set[str]] = defaultdict(set)
    for one in modules:
        for target in _imports(one, known):
            importers[target].add(one.name)
    return [
        f"{one.name} {one.lines} <- {next(iter(importers[one.name]))}"
        for one in modules
        if one.lines < SMALL_MODULE and one.path.name != "__init__.py" and len(importers[one.name]) == 1
    ]


def _imports(module: Module, known: set[str]) -> Iterable[str]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module:
            submodules = [f"{node.module}.{alias.name}" for alias in node.names]
            found = [name for name in submodules if name in known]
            yield from found or ([node.module] if node.module in known else [])


def _repeated_classes(modules: list[Module]) -> list[str]:
    """Return public class names that stand for more than one thing."""
    places: dict[str, list[str]] = defaultdict(list)
    for one in modules:
        for node in ast.walk(one.tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(one.name)
    return [f"{name}: {', '.join(where)}" for name, where in sorted(places.items()) if len(where) > 1]


def _is_gerund(module: Module) -> bool:
    last = module.name.rpartition(".")[2]
    word = last.rpartition("_")[2]
    return word.endswith("ing") and word not in NOUNS


def _repeated_functions(files: list[Path]) -> list[str]:
    counts = Counter(name.lower() for path in files for name in DATABASE_FUNCTION.findall(path.read_text("utf-8")))
    return [f"{name} {count}" for name, count in sorted(counts.items()) if count > 1]


def _vague_words(files: Iterable[Path], root: Path) -> Counter[str]:
    counts: Counter[str] = Counter()
    for path in files:
        found = VAGUE_WORDS.findall(CODE_SPAN.sub("", path.read_text("utf-8")))
        if found:
            counts[str(path.relative_to(root))] = len(found)
    return counts


def _prose(path: Path) -> Iterable[str]:
    """Yield the lines of a document outside of its blocks of code."""
    fenced = False
    for line in path.read_text("utf-8").splitlines():
        fenced ^= line.startswith("```")
        if not fenced:
            yield line


if __name__ == "__main__":
    main()
