"""Standard output, whose reader may have seen enough: `proxml-predict ... | head -4` is no reason to fail."""

import os
import sys


def show(text: str) -> None:
    """Print a page at once. When nobody reads it any more, it and what follows go nowhere, and the run goes on."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        close_quietly()


def close_quietly() -> None:
    """Send all that is still to be printed nowhere: Python would try again, and fail, while it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
