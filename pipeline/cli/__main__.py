"""`python -m laggard.pipeline.cli`: how the supervisor starts the parts."""

from laggard.pipeline.cli import main

main()
