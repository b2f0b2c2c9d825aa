"""What a run tells while it works: one summary line a stage, and how far it is."""

import logging
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from tqdm import tqdm

log = logging.getLogger("proxml")

SECONDS_BETWEEN_LINES = 5.0


class Stages:
    """The stages of a run, with the seconds each took, and those that this rank's processors worked."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.processor_seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[list[str]]:
        """Time a paragraph; what is appended to the list stands in its summary line."""
        facts: list[str] = []
        began, worked = time.monotonic(), time.process_time()
        yield facts
        self.seconds[name] = time.monotonic() - began
        self.processor_seconds[name] = time.process_time() - worked
        log.info("%s: %s (%.1f s, memory %s)", name, ", ".join(facts), self.seconds[name], memory_text())


class Progress:
    """How much of a known total is done: a bar on a terminal, a line every few seconds in a log."""

    def __init__(self, what: str, unit: str, total: int, speaks: bool) -> None:
        self.what, self.unit, self.total = what, unit, total
        on_screen = speaks and sys.stderr.isatty()
        self._bar = tqdm(total=total, desc=what, unit=f" {unit}", leave=False) if on_screen else None
        self._logs = speaks and self._bar is None
        self._began = self._last = time.monotonic()

    def show(self, done: int) -> None:
        """Say how much is done, if it is time to."""
        now = time.monotonic()
        if self._bar is not None:
            self._bar.update(done - self._bar.n)
        elif self._logs and done < self.total and now - self._last >= SECONDS_BETWEEN_LINES:
            self._last = now
            left = (now - self._began) * (self.total - done) / done if done else float("inf")
            remaining = f", about {left:,.0f} s left" if done else ""
            log.info("%s: %s of %s %s%s", self.what, f"{done:,}", f"{self.total:,}", self.unit, remaining)

    def close(self) -> None:
        """Take the bar off the screen."""
        if self._bar is not None:
            self._bar.close()


def memory_text() -> str:
    """Return the resident memory of this process, for people."""
    return mebibytes(psutil.Process().memory_info().rss)


def peak_memory_bytes() -> int:
    """Return the largest resident memory that this process has had.

    Linux's getrusage also counts what the process had that started this one, where that was more.
    """
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    own = [int(line.split()[1]) for line in lines if line.startswith("VmHWM:")]
    return 1024 * (own[0] if own else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def seconds_since_start() -> float:
    """Return how long ago this process began, the interpreter's own start included."""
    return time.time() - psutil.Process().create_time()


def mebibytes(n_bytes: float) -> str:
    """Return a size for people."""
    return f"{n_bytes / 2**20:,.1f} MiB"
