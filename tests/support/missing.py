"""What a machine may lack: a browser, a database, network namespaces.

Support code raises `Missing`. In `make test` the tests that need it are left out, and the summary has one line for
each thing; in `make test-all` they fail.
"""


class Missing(RuntimeError):
    """This machine, or this user, lacks something that a test needs. The message says what, and how to get it."""
