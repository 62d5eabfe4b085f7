"""The sections of a run, each in a process of its own, with a limit of its own."""
