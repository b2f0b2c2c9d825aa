"""The family of errors that are the user's to mend: one clear message, exit status 2."""

from os import PathLike


class UserError(Exception):
    """Something the user did; the message says what was found and what was expected."""

    is_shared = False  # whether all ranks raise it together, so that one message and a common end are possible


class SettingsError(UserError):
    """An option whose value cannot be used."""

    def __init__(self, option: str, found: object, expected: str) -> None:
        super().__init__(f"{option}: found {found!r}, expected {expected}")


class FileError(UserError):
    """A file that cannot be used: where in it, what was found, what was expected."""

    def __init__(self, path: str | PathLike[str], problem: str, *, line: int | None = None) -> None:
        place = f"{path}:{line}" if line is not None else str(path)
        super().__init__(f"{place}: {problem}")
        self.path = str(path)
        self.line = line


class DataError(FileError):
    """A data set that breaks its format."""


class ModelError(FileError):
    """A model file that is damaged, foreign or does not fit the data."""


class StoppedError(Exception):
    """An orderly end before everything is done: run again with --resume (exit status 75). All ranks raise it."""


class MemoryShortageError(UserError):
    """A job that cannot fit into the memory at hand."""


class LaunchError(UserError):
    """A launcher that started something else than one MPI job."""

    is_shared = True  # every process finds it by itself
