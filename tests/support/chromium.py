"""A real Chromium for the tests: found on PATH, or installed from the system's packages where that is possible."""

import os
import shutil
import subprocess
import sys

from tests.support.tiers import ALL, Missing

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
#: As root Chromium runs without its sandbox; it looks for nothing outside of this machine.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


#: What a machine without a browser is told.
NO_BROWSER = f"The browser tests need Chromium: install one of {', '.join(NAMES)}."


def _on_path() -> str | None:
    return next((found for name in NAMES if (found := shutil.which(name))), None)


def chromium() -> str:
    """Return where the browser is."""
    if found := _on_path():
        return found
    raise Missing(NO_BROWSER)


def main() -> int:
    """Install a browser where there is none and root may, and say so. Fails in `make test-all` alone."""
    if found := _on_path():
        print(f"== the browser tests use {found}")
        return 0
    if os.geteuid() == 0 and (apt := shutil.which("apt-get")):
        print("== installing the package chromium for the browser tests")
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for words in (["update"], ["install", "--yes", "--no-install-recommends", "chromium"]):
            if subprocess.run([apt, "--quiet", *words], env=quiet, stdout=subprocess.DEVNULL, check=False).returncode:
                break
        if _on_path():
            return 0
    print(NO_BROWSER, file=sys.stderr)
    return 1 if ALL else 0


if __name__ == "__main__":
    sys.exit(main())
