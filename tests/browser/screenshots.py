"""Pictures of every page and state, light and dark, wide and narrow: `python -m tests.browser.screenshots [FOLDER]`."""

import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, sync_playwright
from rich.progress import track

from tests.browser.gallery import Gallery, gallery
from tests.support.chromium import FLAGS, chromium

WIDTHS = {"wide": 1280, "narrow": 360}
Scheme = Literal["light", "dark"]
SCHEMES: tuple[Scheme, ...] = ("light", "dark")


Address = Callable[[Gallery], str]
#: The states that the gallery has a job in.
_STATES = (
    *("completed", "failed", "partial", "backoff", "canceled", "canceling", "running", "working", "silent", "queued"),
)


def _job_page(state: str) -> Address:
    return lambda shown: f"/jobs/{shown.jobs[state]}"


def _result_page(state: str) -> Address:
    return lambda shown: f"/results/{shown.result(state)}"


#: Where each page is, by the name of its picture.
PAGES: Mapping[str, Address] = {
    "start": lambda _: "/",
    "start_other": lambda _: "/?analysis=single",
    "again": lambda shown: f"/?from={shown.jobs['failed']}",
    "jobs": lambda _: "/jobs",
    "jobs_filtered": lambda _: "/jobs?status=failed&q=Kreis",
    "jobs_none": lambda _: "/jobs?q=nothing+like+this",
    "errors": lambda _: "/errors",
    "inbox": lambda _: "/inbox",
    "schedules": lambda _: "/schedules",
    "schedules_add": lambda _: "/schedules?analysis=single",
    "webhooks": lambda _: "/webhooks",
    "ops": lambda _: "/ops",
    "ops_workers": lambda _: "/ops/workers",
    "ops_orgs": lambda _: "/ops/orgs",
    "settings": lambda _: "/settings",
    "states": lambda _: "/help/states",
    "cancel": lambda shown: f"/jobs/{shown.jobs['partial']}/cancel",
    "diff": lambda shown: f"/results/{shown.result('completed')}/diff?from=1&to=6",
    "version": lambda shown: f"/results/{shown.result('completed')}/v/2",
    "docs": lambda _: "/docs",
    "problems": lambda _: "/problems",
    "problem": lambda _: "/problems/timeout",
    "not_found": lambda _: "/jobs/unknown",
    "german": lambda _: "/?lang=de",
    **{f"job_{state}": _job_page(state) for state in _STATES},
    **{f"result_{state}": _result_page(state) for state in ("completed", "partial", "failed")},
}


def pictures(browser: Browser, shown: Gallery, folder: Path, only: str) -> Iterator[Path]:
    """Takes them all, one after the other."""
    for scheme in SCHEMES:
        for size, width in WIDTHS.items():
            context = browser.new_context(
                base_url=shown.site.url,
                locale="en-GB",
                timezone_id="Europe/Zurich",
                color_scheme=scheme,
                viewport={"width": width, "height": 800},
            )
            for name, address_of in PAGES.items():
                if only not in name:
                    continue
                page = context.new_page()
                page.goto(address_of(shown))
                path = folder / f"{name}_{size}_{scheme}.png"
                page.screenshot(path=path, full_page=True)
                page.close()
                yield path
            context.close()


def main() -> int:
    """Writes the pictures into a folder, and says where they are."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "runtime/screenshots")
    only = sys.argv[2] if len(sys.argv) > 2 else ""
    folder.mkdir(parents=True, exist_ok=True)
    path = chromium()
    with tempfile.TemporaryDirectory() as place, gallery(Path(place)) as shown, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        total = len(SCHEMES) * len(WIDTHS) * sum(only in name for name in PAGES)
        taken = list(track(pictures(browser, shown, folder, only), "Taking pictures", total))
        browser.close()
    print(f"{len(taken)} pictures are in {folder}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
