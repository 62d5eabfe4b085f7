"""Stage `names`: the names the place has, by the script they are written in."""

from typing import Final

from .context import Context, Result
from .text import script_of

_SHOWN: Final = 12


def names(context: Context) -> Result:
    """How many names the gazetteer has for the place, and some of them in every script, in the gazetteer's order."""
    place = context.place
    by_script: dict[str, list[str]] = {}
    for name in place.other_names:
        by_script.setdefault(script_of(name), []).append(name)
    groups = sorted(by_script.items(), key=lambda group: (-len(group[1]), group[0]))
    return {
        "name": place.name,
        "other_names": sum(map(len, by_script.values())),
        "scripts": [{"script": script, "count": len(written), "names": written[:_SHOWN]} for script, written in groups],
    }
