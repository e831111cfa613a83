"""The one error of this package: its message says what is wrong, where, and what to do."""


class ConsilienceError(ValueError):
    """Something the user can mend. The command line prints the message alone, without a traceback."""


def sentence_of(error: OSError) -> str:
    """What an error of the system, such as a full disk, means for whoever runs the program."""
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}. Finished rounds are saved; mend this and resume."
