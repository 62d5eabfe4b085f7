"""The bundled analysis `address`: an address located and described from the GeoNames gazetteer, offline."""

from langlauf.bundled.address.analysis import address

__all__ = ["address"]
