"""The analyses that ship with the package, as an application: `langlauf serve` serves it when nothing else is named."""

from langlauf.app import Langlauf
from langlauf.bundled.address import address

app = Langlauf()
app.analysis(timeout="5m", default=True)(address)
