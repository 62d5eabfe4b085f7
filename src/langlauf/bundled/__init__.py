"""The analyses that ship with the package, as an application: `langlauf serve` serves it when nothing else is named."""

from langlauf.app import Langlauf
from langlauf.bundled.address import address
from langlauf.bundled.clustering import clustering
from langlauf.bundled.ontology import ontology

app = Langlauf()
app.analysis(timeout="5m", default=True, title="Locate an address", label="{query}")(address)
app.analysis(timeout="30m", title="Group the rows of a table", label="{method}, k = {k_min} to {k_max}")(clustering)
app.analysis(timeout="30m", title="Compare two versions of an ontology", label="{ontology}")(ontology)
