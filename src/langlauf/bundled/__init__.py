"""The analyses that ship with the package, as an application: `langlauf serve` serves it when nothing else is named."""

from langlauf.app import Langlauf, ToolRules
from langlauf.bundled.address import address
from langlauf.bundled.address import presentation as address_presentation
from langlauf.bundled.clustering import clustering
from langlauf.bundled.clustering import presentation as clustering_presentation
from langlauf.bundled.ontology import ontology
from langlauf.bundled.ontology import presentation as ontology_presentation


def _tool(description: str) -> ToolRules:
    """Return how a bundled analysis is described to a model: each computes, offline, and changes nothing."""
    return {"description": description, "read_only": True, "idempotent": True, "open_world": False}


_ADDRESS_TOOL = _tool(
    "Locate an address or a place by name, offline, in the GeoNames gazetteer of towns, and describe it. Use "
    "it to find out which town an address is in and what surrounds it; it knows no buildings, roads or opening"
    ' hours. Example: {"query": "Bundesplatz 3, 3005 Bern", "intelligence_mode": "extended"}. The result has '
    "`locate` (the town with latitude and longitude in degrees, population, and the confidence of the match), "
    "`region`, `surroundings` (people within 5, 10 and 25 km), `rank`; `extended` adds comparable places, "
    "accessibility and hours of daylight; `risk` adds scored components with their reasons. `limits` says what"
    " the figures do not cover. Takes about a second. A query without a recognisable place fails with "
    "address_intel: give the name of the town."
)
_CLUSTERING_TOOL = _tool(
    "Group the rows of a table by similarity (scikit-learn), for every number of groups from k_min to k_max, "
    "and say which number fits best and why. Give the whole table as CSV or JSON text; delimiter, header and "
    'decimal comma are found out. Example: {"table": '
    '"height;width\\n1,2;3,4\\n1,3;3,5\\n7,5;0,4\\n7,4;0,5\\n", "k_max": 3}. The result has `best` (k, '
    "silhouette from -1 to 1, reasons), `curve` (a row per k), `clusters` (size and centre, in the units of "
    "the columns), `outliers`, and `labels` (the group of each row, in the order of the table). Takes seconds "
    "to minutes; interim results have the curve so far. A table that cannot be used fails with bad_table, and "
    "names row and column."
)
_ONTOLOGY_TOOL = _tool(
    "Compare a version of an ontology in OBO format with the one before it: terms added, removed, renamed, "
    "obsoleted, moved, merged, and faults of its structure. Without `previous` it is compared with the version"
    ' that was last sent for the same ontology. Example: {"text": "format-version: 1.2\\nontology: '
    'demo\\n\\n[Term]\\nid: D:1\\nname: root\\n"}. The result has `counts` and `changes` by kind, '
    "`namespaces`, `findings`, and `first_run`, which is true where there was nothing to compare with. Takes "
    "seconds to minutes; each namespace is an interim result. A text that is no OBO fails with bad_ontology, "
    "and names the line."
)

app = Langlauf()
app.analysis(
    timeout="5m",
    default=True,
    title="Locate an address",
    label="{query}",
    facts=address_presentation.FACTS,
    texts={"en": address_presentation.ENGLISH, "de": address_presentation.GERMAN},
    mcp=_ADDRESS_TOOL,
)(address)
app.analysis(
    timeout="30m",
    title="Group the rows of a table",
    label="{method}, k = {k_min}\u2013{k_max}",
    facts=clustering_presentation.FACTS,
    texts={"en": clustering_presentation.ENGLISH, "de": clustering_presentation.GERMAN},
    mcp=_CLUSTERING_TOOL,
)(clustering)
app.analysis(
    timeout="30m",
    title="Compare two versions of an ontology",
    label="{ontology}",
    facts=ontology_presentation.FACTS,
    texts={"en": ontology_presentation.ENGLISH, "de": ontology_presentation.GERMAN},
    mcp=_ONTOLOGY_TOOL,
)(ontology)
