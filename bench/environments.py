"""Virtual environments of the peers, made where they are missing or where their requirements have changed."""

import hashlib
import subprocess
import sys
from pathlib import Path

from bench.progress import print_progress

HERE = Path(__file__).parent
#: git ignores it.
RUNTIME = HERE.parent / "runtime" / "bench"
REQUIREMENTS = HERE / "requirements"
#: Langlauf itself runs in the environment of this process, from this checkout.
OWN = "langlauf"
_PIP = ("-m", "pip", "--disable-pip-version-check", "--quiet", "--quiet", "install")


def python_of(name: str) -> Path:
    """Return the Python of an environment."""
    return Path(sys.executable) if name == OWN else RUNTIME / "venvs" / name / "bin" / "python"


def program_of(name: str, program: str) -> str:
    """Return the path of a program of an environment."""
    return str(python_of(name).parent / program)


def install(name: str) -> None:
    """Make an environment with what its requirements file pins, unless it is there."""
    if name == OWN:
        return
    wanted = REQUIREMENTS / f"{name}.txt"
    mark = RUNTIME / "venvs" / name / "installed"
    digest = hashlib.sha256(wanted.read_bytes()).hexdigest()
    if mark.exists() and mark.read_text("utf-8") == digest:
        return
    print_progress(f"installing {wanted.relative_to(HERE.parent)}")
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(mark.parent)], check=True)
    subprocess.run([str(python_of(name)), *_PIP, "-r", str(wanted)], check=True)
    mark.write_text(digest, "utf-8")


def pinned(name: str, package: str) -> str:
    """Return the version of a package that an environment pins."""
    for line in (REQUIREMENTS / f"{name}.txt").read_text("utf-8").splitlines():
        known, _, version = line.partition("==")
        if known.lower() == package:
            return version
    raise KeyError(f"{package} is not in the requirements of {name}")
