"""What a reader does about a problem in the data: end at the first one, or take note and go on."""

from collections.abc import Callable
from typing import NoReturn

from proxml_mpi.errors import DataError

Complain = Callable[[DataError], None]  # raises what it is given, or returns so that reading goes on


def insist(error: DataError) -> NoReturn:
    """Complain of the first problem at once."""
    raise error


class Problems:
    """A list of the first problems; one beyond the limit ends the reading."""

    def __init__(self, limit: int) -> None:
        self.found: list[DataError] = []
        self.has_more = False
        self._limit = limit

    def __call__(self, error: DataError) -> None:
        """Take note of a problem, or raise the one too many."""
        if len(self.found) == self._limit:
            self.has_more = True
            raise error
        self.found.append(error)
