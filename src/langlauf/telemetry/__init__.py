"""Log events, metrics and traces of the program."""
