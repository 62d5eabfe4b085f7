"""Tools over a whole store: verify, copy, backup, inspection. Driver code stays with the drivers."""
