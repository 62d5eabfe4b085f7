"""Plain functions in processes of their own: warm, watched from outside, and ended by force where it must be."""

#: Whether this is such a process.
INSIDE = False
