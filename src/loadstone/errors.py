"""What loadstone raises when it cannot go on: a sentence for a person, and the exit code that goes with it."""


class LoadstoneError(Exception):
    """A fault that a person can mend. The message names the input and the remedy; no traceback is shown for it."""

    exit_code = 2


class UsageError(LoadstoneError):
    """Bad flags, configuration or data: nothing has been sent."""


class NotReadyError(LoadstoneError):
    """The server did not answer a test request in time, or refused it for good."""

    exit_code = 3
