"""The bundled analysis `clustering`: the rows of a table put into groups with scikit-learn, for every k asked for."""

from langlauf.bundled.clustering.analysis import clustering

__all__ = ["clustering"]
