"""The checks of every daemon process before it joins: configuration, topics, key. Each fault is one clear line."""

from __future__ import annotations

import logging
import time
from pathlib import Path

from connectors.kafka import topics
from connectors.kafka.source import Source
from models.errors import InputError, VeilstreamError
from stream.config.settings import Settings
from stream.config.sources import load
from stream.ledger.folder import create_key, read_key, refuse_lost_key
from stream.ledger.layout import OperatorLayout
from stream.values.pseudonym import key_from_text

log = logging.getLogger("veilstream")

KEY_PATIENCE = 5.0
"""Seconds to wait for a key that another process of this host is just writing."""


def daemon_settings(config: Path) -> tuple[Settings, Source]:
    """Load the configuration of a daemon.

    Raises
    ------
    InputError
        If it has no [source].
    """
    settings = load(config)
    if settings.source is None:
        raise InputError(f"{config}: no [source] table: the daemon needs source.topics and source.bootstrap")
    return settings, settings.source


def check_topics(settings: Settings, source: Source, role: topics.Role) -> None:
    """Check the topics before the start, and that a role may use them.

    Raises
    ------
    InputError
        If one is missing, has no total order, or may lose records that must be kept.
    VeilstreamError
        If the broker does not let us look: a check that cannot be made has not passed. Or if it does not let the role
        do what it always does.
    """
    with topics.admin(source) as client:
        topics.partitions(client, source.topics)
        problems = topics.check(client, topics.plans(settings.process.name, source))
        problems += topics.check_permissions(client, settings.process.name, source, role)
        for problem in problems:
            if problem.forbidden:
                raise VeilstreamError(problem.text)
            if problem.fatal:
                raise InputError(problem.text)
            log.warning(problem.text)


def source_partitions(source: Source) -> tuple[tuple[str, int], ...]:
    """Return every (topic, partition) that events come from: the recorded source set of the fold."""
    with topics.admin(source) as client:
        counts = topics.partitions(client, source.topics)
    return tuple((name, number) for name in source.topics for number in range(counts[name]))


def pseudonym_key(settings: Settings, output: Path) -> bytes:
    """Return the configured key, else the one of the operator's folder, made on first use.

    Raises
    ------
    RefusedError
        If the folder was used before and its key is missing.
    """
    if settings.key is not None:
        return key_from_text(settings.key.get_secret_value())
    layout = OperatorLayout(output)
    path = layout.key
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not path.exists():
        refuse_lost_key(layout)
        try:
            create_key(path)
        except InputError:
            if not path.exists():
                raise
    return _patient_read(path)


def existing_key(settings: Settings, output: Path) -> bytes:
    """Return the key under which the recorded events are named.

    Raises
    ------
    InputError
        If there is none: a new one names nobody.
    """
    path = OperatorLayout(output).key
    if settings.key is None and not path.exists():
        raise InputError(f"{path}: there is no pseudonym key; give the folder of the running daemon with -o")
    return pseudonym_key(settings, output)


def _patient_read(path: Path) -> bytes:
    deadline = time.monotonic() + KEY_PATIENCE
    while True:
        try:
            return read_key(path)
        except InputError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
