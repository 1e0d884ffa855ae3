"""`python -m laggard.pipeline.cli`: the command by which the supervisor starts the parts."""

from laggard.pipeline.cli import main

main()
