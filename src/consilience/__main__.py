"""`python -m consilience`."""

from consilience.cli import main

main()
