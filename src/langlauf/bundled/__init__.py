"""The analyses that ship with the package, as an application: `langlauf serve` serves it when nothing else is named."""

from langlauf.app import Langlauf
from langlauf.bundled.address import address
from langlauf.bundled.clustering import clustering
from langlauf.bundled.ontology import ontology

app = Langlauf()
app.analysis(timeout="5m", default=True)(address)
app.analysis(timeout="30m")(clustering)
app.analysis(timeout="30m")(ontology)
