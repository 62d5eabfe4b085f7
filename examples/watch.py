"""Watches an ontology: what is new every morning, and a mail only if anything is.

Serve it from this folder: langlauf serve watch:app --port 8081
With a mail server (LANGLAUF_SMTP): LANGLAUF_URL=http://127.0.0.1:8081 WATCH_EMAIL=you@example.org langlauf serve …
"""

import hashlib
import os
import re
from pathlib import Path
from typing import Literal

from langlauf import AsyncClient, Job, Langlauf, Result, views

app = Langlauf()
FOLDER = Path(__file__).parent
COLUMNS = {"change": "Change", "id": "Term", "before": "Before", "now": "Now"}


@app.analysis(every="0 6 * * *", zone="Europe/Zurich", given={"ontology": "garden"}, label="{ontology}")
async def watch(job: Job, ontology: Literal["garden"]) -> Result:
    """Compares an ontology with how it was at the last run."""
    text = await job.checkpoint("text", fetch, ontology)  # a second attempt compares the same
    await job.source(ontology, hash=f"sha256:{hashlib.sha256(text.encode()).hexdigest()}")
    terms = dict(re.findall(r"^\[Term\]\nid: (\S+)\nname: (.+)$", text, re.MULTILINE))
    last = await job.previous(ontology=ontology)
    changes = compare(last["terms"] if last else terms, terms)  # the first run has nothing to compare with
    email = os.environ.get("WATCH_EMAIL")
    if changes and email:
        async with AsyncClient() as client:
            await client.job(job.job_id).notify(email)  # when this job ends, with a link to its result
    return Result(
        {"terms": terms, "changes": changes},
        summary={"terms": len(terms), "changes": len(changes)},
        views=[views.table(changes, columns=COLUMNS, title="What changed")] if changes else [],
    )


def fetch(ontology: str) -> str:
    """Stands for a download."""
    return (FOLDER / f"{ontology}.obo").read_text("utf-8")


def compare(before: dict[str, str], now: dict[str, str]) -> list[dict[str, str | None]]:
    """Return the terms that came, went or have another name."""
    found = []
    for term in sorted(before.keys() | now.keys()):
        old, new = before.get(term), now.get(term)
        if old != new:
            change = "added" if old is None else "removed" if new is None else "renamed"
            found.append({"change": change, "id": term, "before": old, "now": new})
    return found
