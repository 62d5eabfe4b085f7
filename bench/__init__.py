"""Langlauf beside its peers, and what its stores cost: `python -m bench`."""
