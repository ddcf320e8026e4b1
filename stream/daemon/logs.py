"""Logs on stderr: JSON lines where nobody watches, readable lines on a terminal; never the content of a record."""

from __future__ import annotations

import logging
import os
import sys

import structlog

LIBRARIES = {
    "faust": logging.WARNING,
    "stream.daemon.faust_consumer": logging.WARNING,  # Faust names a service's logger after the module of its class
    "mode": logging.ERROR,
    "aiokafka": logging.WARNING,
    "kafka": logging.ERROR,
}
"""Their chatter names partitions and tasks, and would drown ours; kafka and mode warn of every slow moment."""


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
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name, least in LIBRARIES.items():
        logging.getLogger(name).setLevel(max(level, least))


def _process(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    return {"pid": os.getpid(), **event}
