"""Running a story under MPI: logging, one message for a mistake, an abort for a defect, an exit status."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from proxml_mpi.cli.logs import start_logging
from proxml_mpi.errors import LaunchError, StoppedError, UserError
from proxml_mpi.kernel_cache import choose_cache
from proxml_mpi.output import close_quietly
from proxml_mpi.ranks.launch import announced_rank
from proxml_mpi.settings.fields import LoggingSettings

if TYPE_CHECKING:
    from proxml_mpi.ranks.world import World


EXIT_MISTAKE = 2
EXIT_STOPPED = 75  # EX_TEMPFAIL: come again


def run(
    prog: str, settings: LoggingSettings, story: "Callable[[World], None]", refuses_broken_launch: bool = True
) -> int:
    """Run a story on every rank and return the exit status. Collective: every rank calls this.

    The story imports what it needs when it is told, so that numba comes after the choice of its cache.
    """
    choose_cache()
    try:
        from proxml_mpi.ranks.world import end_all, leave_together, open_world
    except LaunchError as error:
        return _say(prog, error)
    try:
        with open_world(refuses_broken_launch) as world:
            with world.together():
                start_logging(settings, world.rank, world.size)
            story(world)
    except UserError as error:
        return _fail(prog, error)
    except SystemExit as error:
        # Nothing here exits on purpose: the other ranks would wait for this one for ever.
        end_all(error.code if isinstance(error.code, int) and error.code else 1)
        raise
    except StoppedError as error:
        if announced_rank() == 0:
            print(f"{prog}: {error}", file=sys.stderr, flush=True)
        leave_together()
        return EXIT_STOPPED
    return 0


def run_alone(prog: str, story: Callable[[], None]) -> int:
    """Run a story that needs no MPI and return the exit status; it imports what it needs when it is told."""
    choose_cache()
    try:
        story()
        sys.stdout.flush()
    except UserError as error:
        print(f"{prog}: error: {error}", file=sys.stderr)
        return EXIT_MISTAKE
    except BrokenPipeError:
        close_quietly()
    return 0


def _fail(prog: str, error: UserError) -> int:
    """Say what the user did wrong, once; end the other ranks when they know nothing of it."""
    from proxml_mpi.ranks.world import end_all, leave_together

    _say(prog, error)
    if error.is_shared:
        leave_together()
    else:
        end_all(EXIT_MISTAKE)
    return EXIT_MISTAKE


def _say(prog: str, error: UserError) -> int:
    """Print a message, from rank 0 alone when all ranks have it, and return the exit status."""
    if announced_rank() == 0 or not error.is_shared:
        print(f"{prog}: error: {error}", file=sys.stderr, flush=True)
    return EXIT_MISTAKE
