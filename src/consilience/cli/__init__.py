"""The command line: parse, call one function, print."""

from consilience.cli.main import main

__all__ = ["main"]
