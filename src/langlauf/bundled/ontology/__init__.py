"""The bundled analysis `ontology`: a version of an ontology compared with the one before it, term by term."""

from .analysis import ontology

__all__ = ["ontology"]
