"""Measures Langlauf on the machine it stands on. Every figure is set against another one of the same run."""
