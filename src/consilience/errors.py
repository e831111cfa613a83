"""The one error of this package: its message says what is wrong, where, and what to do."""


class ConsilienceError(ValueError):
    """Something the user can mend. The command line prints the message alone, without a traceback."""
