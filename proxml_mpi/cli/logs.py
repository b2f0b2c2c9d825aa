"""The log: lines with ISO time, level, rank and host, as text or as JSON."""

import json
import logging
import socket
from pathlib import Path

from proxml_mpi.errors import UserError
from proxml_mpi.settings.fields import LoggingSettings

TIME = "%Y-%m-%dT%H:%M:%S"


def start_logging(settings: LoggingSettings, rank: int, size: int) -> None:
    """Let rank 0 speak as the settings say, the others from warnings up; a file of its own holds all of a rank."""
    log = logging.getLogger("proxml")
    log.setLevel(settings.log_level.upper())
    handlers: list[logging.Handler] = [logging.StreamHandler()]
    if settings.log_file is not None and (rank == 0 or "%r" in str(settings.log_file)):
        path = Path(str(settings.log_file).replace("%r", str(rank)))
        try:
            handlers.append(logging.FileHandler(path))
        except OSError as error:
            raise UserError(f"--log-file: {path} cannot be written: {error.strerror}") from error
    host = socket.gethostname()
    text = logging.Formatter(f"%(asctime)s %(levelname)s {rank}/{size} {host} %(message)s", TIME)
    for handler in handlers:
        handler.setFormatter(JsonLines(rank, size, host) if settings.log_format == "json" else text)
        log.addHandler(handler)
    if rank > 0:
        handlers[0].setLevel(max(logging.WARNING, log.level))


class JsonLines(logging.Formatter):
    """One object a line: time (seconds since 1970 in `timestamp` too), level, rank, size, host, message."""

    def __init__(self, rank: int, size: int, host: str) -> None:
        super().__init__(datefmt=TIME)
        self._place = {"rank": rank, "size": size, "host": host}

    def format(self, record: logging.LogRecord) -> str:
        when = {"time": self.formatTime(record, self.datefmt), "timestamp": round(record.created, 3)}
        line = when | {"level": record.levelname} | self._place | {"message": record.getMessage()}
        return json.dumps(line, ensure_ascii=False)
