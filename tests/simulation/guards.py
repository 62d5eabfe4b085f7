"""Finds the guards in a statement: what its WHERE asks beyond which row is meant."""

import re

#: Conditions that say which row is meant. They are no guards: the row is the same before and after any change.
_ADDRESS = re.compile(
    r"(\w+\.)?(org_id|org|job_id|job|analysis|name|event_seq|idempotency_key) = "
    r"(\?\d?|:(org_id|org|job_id|job|analysis|event_seq|key|resume_from))"
)
_END = re.compile(r"\b(RETURNING|GROUP BY|ORDER BY|LIMIT|ON CONFLICT)\b")


def guards(sql: str) -> list[str]:
    """The conditions of a statement's own WHERE, one by one, with single spaces; those of subqueries belong to them."""
    outside = " ".join(line for line in sql.splitlines() if not line.startswith("--"))
    _, found, condition = _cut(outside, re.compile(r"\bWHERE\b"))
    if not found:
        return []
    condition, _, _ = _cut(condition, _END)
    parts = []
    while condition:
        part, _, condition = _cut(condition, re.compile(r"\bAND\b"))
        parts.append(" ".join(part.split()))
    return [part for part in parts if not _ADDRESS.fullmatch(part)]


def _cut(text: str, word: re.Pattern[str]) -> tuple[str, str, str]:
    """What comes before the first such word outside of parentheses, the word, and what comes after."""
    for match in word.finditer(text):
        before = text[: match.start()]
        if before.count("(") == before.count(")"):
            return before, match.group(), text[match.end() :]
    return text, "", ""
