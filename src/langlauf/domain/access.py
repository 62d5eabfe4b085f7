"""What a caller may do."""

from enum import StrEnum


class Scope(StrEnum):
    """One kind of thing to do. Every operation of the API needs one of them, or is open to everybody."""

    SUBMIT = "submit"
    READ = "read"
    CANCEL = "cancel"
    #: to manage the org itself
    ADMIN = "admin"
    #: to look over all orgs: the operator's alone, never a key's
    OPERATE = "operate"


#: What an operator may do, and everybody where nobody is asked for a key.
EVERYTHING = frozenset(Scope)
#: What a key can be given.
GRANTABLE = EVERYTHING - {Scope.OPERATE}
