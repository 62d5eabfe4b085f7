"""OBO documents for tests: a small one in two versions, and large ones."""

BEFORE = """\
format-version: 1.2
data-version: 2026-01
ontology: demo
default-namespace: process

[Term]
id: D:1
name: root

[Term]
id: D:2
name: walking
def: "To walk." [D:cur]
is_a: D:1 ! root

[Term]
id: D:3
name: strolling
is_a: D:2

[Term]
id: D:4
name: running
synonym: "jogging" RELATED []
is_a: D:1

[Term]
id: D:5
name: sprinting
is_a: D:4

[Term]
id: D:6
name: old gait
is_obsolete: true

[Term]
id: D:7
name: shoe
namespace: thing

[Term]
id: D:8
name: boot
namespace: thing
is_a: D:7

[Typedef]
id: part_of
name: part of
"""
AFTER = """\
format-version: 1.2
data-version: 2026-02
ontology: demo
default-namespace: process

[Term]
id: D:1
name: root

[Term]
id: D:2
name: walking
alt_id: D:3
def: "To walk on foot." [D:cur]
is_a: D:1 ! root

[Term]
id: D:4
name: running fast
synonym: "jogging" EXACT []
is_a: D:1

[Term]
id: D:5
name: sprinting
is_a: D:2
is_a: D:404

[Term]
id: D:6
name: old gait

[Term]
id: D:7
name: shoe
namespace: thing
is_obsolete: true
replaced_by: D:9

[Term]
id: D:9
name: footwear
namespace: thing
"""


def large(terms: int, *, version: int = 0) -> str:
    """A tree of so many terms in three namespaces; a later version renames every hundredth and adds ten."""
    first, last = 1, terms + 10 * version
    frames = (
        f"[Term]\nid: L:{number:07d}\nname: term {number}{' renamed' if version and number % 100 == 0 else ''}\n"
        f'namespace: part_{number % 3}\ndef: "What term {number} means in a sentence." [L:cur]\n'
        f'synonym: "name {number}" EXACT []\nis_a: L:{number // 2 or 1:07d}\n\n'
        for number in range(first + 1, last + 1)
    )
    root = "[Term]\nid: L:0000001\nname: root\nnamespace: part_1\n\n"
    return f"format-version: 1.2\nontology: large\ndata-version: {version}\n\n{root}{''.join(frames)}"
