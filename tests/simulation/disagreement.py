"""How the simulation says that the store did not do what the contract says."""


class Disagreement(Exception):
    """The store did something else than the contract says."""


def agree(what: str, got: object, wanted: object) -> None:
    """Nothing where both are equal."""
    if got != wanted:
        raise Disagreement(f"{what}: the store says {got!r}, the contract {wanted!r}")
