"""A real Chromium for the tests: found on PATH, or installed from the system's packages where that is possible."""

import os
import shutil
import subprocess
import sys

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


def chromium() -> str | None:
    """Where the browser is."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


def main() -> int:
    """Makes sure that there is one, and says what was done for it."""
    if found := chromium():
        print(f"== the browser tests use {found}")
        return 0
    if os.geteuid() == 0 and (apt := shutil.which("apt-get")):
        print("== installing the package chromium for the browser tests")
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for words in (["update"], ["install", "--yes", "--no-install-recommends", "chromium"]):
            if subprocess.run([apt, "--quiet", *words], env=quiet, stdout=subprocess.DEVNULL, check=False).returncode:
                break
        if chromium():
            return 0
    print(
        f"The browser tests need Chromium: install one of {', '.join(NAMES)} and say make test again.", file=sys.stderr
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
