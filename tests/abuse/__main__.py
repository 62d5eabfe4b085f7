"""`python -m tests.abuse`: clients that are slow, greedy or many, and what an ordinary one notices of them."""

from tests.abuse.suite import BY_HAND, SCENARIOS
from tests.faults.command import command

main = command({**SCENARIOS, **BY_HAND}, "Abuse a real Langlauf over its port. Exit 1 where a bound was broken.")

if __name__ == "__main__":
    main()
