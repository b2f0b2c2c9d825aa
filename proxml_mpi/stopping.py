"""When to stop: a signal, or a time limit."""

import signal
import time
from types import FrameType

SIGNALS = (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT)


class StopSignals:
    """While entered, SIGUSR1, SIGTERM and Ctrl-C ask for an orderly end, and a clock does so too."""

    def __init__(self, time_limit_seconds: float | None, began: float) -> None:
        """began: time.monotonic() of the run's start."""
        self.reason: str | None = None
        self._deadline = None if time_limit_seconds is None else began + time_limit_seconds

    def __enter__(self) -> "StopSignals":
        self._before = {number: signal.signal(number, self._receive) for number in SIGNALS}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def wanted(self) -> bool:
        """Return whether to stop now."""
        if self.reason is None and self._deadline is not None and time.monotonic() >= self._deadline:
            self.reason = "the time limit is reached"
        return self.reason is not None

    def _receive(self, number: int, frame: FrameType | None) -> None:
        """Take note; whoever presses Ctrl-C once more wants no order."""
        if number == signal.SIGINT:
            signal.signal(number, signal.default_int_handler)
        self.reason = f"{signal.Signals(number).name} was received"
