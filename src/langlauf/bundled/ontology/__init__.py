"""The bundled analysis `ontology`: a version of an ontology compared with the one before it, term by term."""

from langlauf.bundled.ontology.analysis import ontology

__all__ = ["ontology"]
