"""Logs on stderr, as JSON or as text; never the content of a record.

Each line of a decision carries its cut, publication and release (`stream.values.log_fields`).
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import time
from typing import TYPE_CHECKING

import structlog

from models.errors import VeilstreamError
from stream.values.log_fields import current_log_fields

if TYPE_CHECKING:
    from stream.config.settings import LogFormat, LogLevel

log = logging.getLogger("veilstream")

LIBRARIES = {
    "faust": logging.WARNING,
    "stream.daemon.faust_consumer": logging.WARNING,  # Faust names a service's logger after the module of its class
    "mode": logging.ERROR,
    "aiokafka": logging.WARNING,
    "kafka": logging.ERROR,
    "httpx": logging.WARNING,
    "httpx2": logging.WARNING,
    "opentelemetry": logging.ERROR,
}
"""The least level of each library, whatever level is configured. Their chatter names partitions and tasks, and would
drown ours; kafka and mode warn of every slow moment. Below these levels a client may also print records."""

CLIENTS = {"aiokafka", "kafka"}
"""Libraries whose lines are not repeated."""

REPEAT_SECONDS = 60.0
"""A line of a Kafka client is not repeated within this time. While the broker is away the clients log each try: 145
lines a second, which are 2.5 GB a day and can fill the disk of the releases."""

MOST_LINES = 1000
"""Lines that are remembered at most: a library may write values into its templates."""


class _NotRepeated(logging.Filter):
    """Leaves out a line of a Kafka client if the same one, whatever its values, came a short while ago."""

    def __init__(self) -> None:
        super().__init__()
        self._logged_at: dict[tuple[str, int, str], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        library = record.name.partition(".")[0]
        if library not in CLIENTS or record.exc_info:
            return True
        line, now = (record.name, record.levelno, str(record.msg)), time.monotonic()
        if now - self._logged_at.get(line, float("-inf")) < REPEAT_SECONDS:
            return False
        if len(self._logged_at) >= MOST_LINES:
            self._logged_at.clear()
        self._logged_at[line] = now
        return True


class _Once(logging.Filter):
    """Reduces a refusal to its one line, and a passing error to a warning.

    Faust logs our own errors with their stack, then errors of stopping in the middle, all before the process logs in
    one line why it stops (`roles.ending`). The client logs an error if a broker that has just started has no group
    coordinator yet, and then tries again.
    """

    def __init__(self) -> None:
        super().__init__()
        self._refused = False

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name == "veilstream" or record.levelno < logging.ERROR:
            return True
        if record.exc_info and isinstance(record.exc_info[1], VeilstreamError):
            self._refused = True
        arguments = record.args if isinstance(record.args, tuple) else ()
        if any(getattr(argument, "retriable", False) is True for argument in arguments):
            record.levelno, record.levelname = logging.WARNING, "WARNING"
        return not self._refused


def configure(level: LogLevel = "info", log_format: LogFormat = "auto") -> None:
    """Route the logging of this process, ours and the libraries', through one handler on stderr.

    Called once with the defaults, so that a refused configuration is logged, and again with the configured values.

    Parameters
    ----------
    level
        Least level of our own lines. Lines of libraries have a least level of their own (`LIBRARIES`).
    log_format
        `auto` writes text on a terminal and JSON elsewhere.
    """
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            _add_context,
            _renderer(log_format),
        ],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    handler.addFilter(_Once())
    handler.addFilter(_NotRepeated())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    number = logging.getLevelNamesMapping()[level.upper()]
    root.setLevel(max(number, logging.INFO))
    logging.getLogger("veilstream").setLevel(number)
    for name, least in LIBRARIES.items():
        logging.getLogger(name).setLevel(max(number, least))
    threading.excepthook = _log_end_of_thread


def _log_end_of_thread(thread_end: threading.ExceptHookArgs) -> None:
    """Log the error that ended a thread, in the format of the log: Python would print its stack to stderr as it is."""
    if issubclass(thread_end.exc_type, asyncio.CancelledError):
        return  # a stop cancels what a client waits for; while the broker is away this ends the thread of a consumer
    error = thread_end.exc_value
    log.error("a thread ended: %s", thread_end.exc_type.__name__, exc_info=error)


def _renderer(log_format: LogFormat) -> structlog.typing.Processor:
    is_terminal = sys.stderr.isatty()
    if log_format == "json" or (log_format == "auto" and not is_terminal):
        return structlog.processors.JSONRenderer()
    # The default formatter of exceptions would print the values of local variables, which are records.
    plain = structlog.dev.plain_traceback
    return structlog.dev.ConsoleRenderer(colors=is_terminal, exception_formatter=plain)


def _add_context(
    _logger: object,
    _method: str,
    event: structlog.typing.EventDict,
) -> structlog.typing.EventDict:
    """Add the process id and the fields of the present decision. The handler calls it in the thread that logs."""
    return {"pid": os.getpid(), **current_log_fields(), **event}
