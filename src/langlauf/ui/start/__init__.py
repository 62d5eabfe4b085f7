"""The first page: what can be run, a form for it, and what the org asked for lately."""
