"""Logs on stderr: JSON lines if stderr is not a terminal, readable lines on one; never the content of a record."""

from __future__ import annotations

import logging
import os
import sys

import structlog

from models.errors import VeilstreamError

LIBRARIES = {
    "faust": logging.WARNING,
    "stream.daemon.faust_consumer": logging.WARNING,  # Faust names a service's logger after the module of its class
    "mode": logging.ERROR,
    "aiokafka": logging.WARNING,
    "kafka": logging.ERROR,
    "httpx": logging.WARNING,
    "httpx2": logging.WARNING,
}
"""Their chatter names partitions and tasks, and would drown ours; kafka and mode warn of every slow moment."""


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


def configure(level: int = logging.INFO) -> None:
    """Route the logging of this process, ours and the libraries', through one handler on stderr."""
    renderer = structlog.dev.ConsoleRenderer() if sys.stderr.isatty() else structlog.processors.JSONRenderer()
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
            _process,
            renderer,
        ],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    handler.addFilter(_Once())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name, least in LIBRARIES.items():
        logging.getLogger(name).setLevel(max(level, least))


def _process(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    return {"pid": os.getpid(), **event}
