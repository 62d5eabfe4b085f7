#!/usr/bin/env python3
"""Remove results, events and records of jobs that are older than their retention, and print a report as JSON.

The same as `langlauf cleanup --json`; `--help` lists the flags. Runs with whatever Python starts it: where that one
does not have the package, the project's own is used.
"""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROJECT_VENV = ROOT / ".venv"
PROJECT_PYTHON = PROJECT_VENV / "bin" / "python"


def main() -> None:
    """Run the command, in a Python that has the package."""
    try:
        from langlauf.cli.removal import cleanup
    except ImportError as error:
        start_with_project_python(error)
    else:
        cleanup.main(["--json", *sys.argv[1:]], prog_name=Path(__file__).name)


def start_with_project_python(error: ImportError) -> None:
    """Replace this process by the project's Python; if that cannot help, exit with the next step."""
    if PROJECT_PYTHON.exists() and Path(sys.prefix).resolve() != PROJECT_VENV.resolve():
        os.execv(PROJECT_PYTHON, [str(PROJECT_PYTHON), __file__, *sys.argv[1:]])  # noqa: S606 - the project's own Python
    sys.exit(
        f"{sys.executable} cannot load langlauf ({error}): start this script with a Python that has it installed, "
        f"or create the project's own, {PROJECT_PYTHON}, with `make run`"
    )


if __name__ == "__main__":
    main()
