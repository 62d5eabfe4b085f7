"""`python -m tests.faults`: breaks a running Langlauf on purpose, and reports which promises were kept."""

from tests.faults.command import command
from tests.faults.suite import SCENARIOS

main = command(SCENARIOS, "Kill, pause and race a real Langlauf. Exit 1 where a promise was broken.")

if __name__ == "__main__":
    main()
