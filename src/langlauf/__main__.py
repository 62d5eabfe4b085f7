"""`python -m langlauf` is the command `langlauf`."""

from langlauf.cli.main import main

main(prog_name="langlauf")
