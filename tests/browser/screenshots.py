"""Pictures of every page and state, light and dark, wide and narrow: `python -m tests.browser.screenshots [FOLDER]`."""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, sync_playwright
from rich.progress import track

from tests.browser.gallery import Gallery, gallery
from tests.support.chromium import FLAGS, chromium

WIDTHS = {"wide": 1280, "narrow": 360}
Scheme = Literal["light", "dark"]
SCHEMES: tuple[Scheme, ...] = ("light", "dark")


def addresses(shown: Gallery) -> dict[str, str]:
    """Every page by the name of its picture."""
    pages = {
        "start": "/",
        "start_other": "/?analysis=single",
        "again": f"/?from={shown.jobs['failed']}",
        "jobs": "/jobs",
        "jobs_filtered": "/jobs?status=failed&q=Kreis",
        "jobs_none": "/jobs?q=nothing+like+this",
        "errors": "/errors",
        "inbox": "/inbox",
        "webhooks": "/webhooks",
        "ops": "/ops",
        "ops_workers": "/ops/workers",
        "ops_orgs": "/ops/orgs",
        "settings": "/settings",
        "states": "/help/states",
        "cancel": f"/jobs/{shown.jobs['partial']}/cancel",
        "diff": f"/results/{shown.result('completed')}/diff?from=1&to=6",
        "version": f"/results/{shown.result('completed')}/v/2",
        "docs": "/docs",
        "problems": "/problems",
        "problem": "/problems/timeout",
        "not_found": "/jobs/unknown",
        "german": "/?lang=de",
    }
    pages |= {f"job_{name}": f"/jobs/{job_id}" for name, job_id in shown.jobs.items()}
    pages |= {f"result_{name}": f"/results/{shown.result(name)}" for name in ("completed", "partial", "failed")}
    return pages


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
            for name, address in addresses(shown).items():
                if only not in name:
                    continue
                page = context.new_page()
                page.goto(address)
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
        total = len(SCHEMES) * len(WIDTHS) * sum(only in name for name in addresses(shown))
        taken = list(track(pictures(browser, shown, folder, only), "Taking pictures", total))
        browser.close()
    print(f"{len(taken)} pictures are in {folder}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
