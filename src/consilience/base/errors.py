"""The one error of this package: its message says what is wrong, where, and what to do."""


class ConsilienceError(ValueError):
    """Something the user can fix. The command line prints the message alone, without a traceback."""


def sentence_of(error: OSError) -> str:
    """What an error of the system, such as a full disk, means for whoever runs the program."""
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}. Finished rounds are saved; fix this and resume."


def first_line(error: BaseException) -> str:
    """The first line of an error's message, at most 300 characters; of an error without one, its kind.

    >>> first_line(ValueError("no number\\nin line 3")), first_line(KeyError())
    ('no number', 'KeyError')
    """
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]
