"""Data of the console's pages, read from an output folder; nothing is kept but the last report."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from models.errors import InputError
from models.instants import utc_text
from stream.daemon.status import Status, gaps_of, read_status, standstill
from stream.ledger.folder import ledger_in
from stream.ledger.layout import OperatorLayout
from stream.operator.approval import HeldRelease, held
from stream.operator.history import read, verdicts_of
from stream.operator.papers import Links, papers
from stream.operator.report.data import collect
from stream.operator.report.page import render
from stream.release.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Daemon:
    """The last status of the coordinator. `standstill`: why nothing moves; `gaps`: sentences on what stops releases."""

    status: Status
    age: float
    standstill: str | None
    gaps: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Overview:
    """The content of the first page.

    Attributes
    ----------
    daemon
        None if no daemon has run in this folder, which a replay made.
    waiting
        Releases that wait for a decision.
    """

    read_at: str
    daemon: Daemon | None
    verdicts: tuple[Verdict, ...]
    waiting: tuple[HeldRelease, ...]
    papers: Links


class Folder:
    """An output folder that a daemon or a replay may be writing to. Nothing here takes its lock."""

    def __init__(self, output: Path, *, show_values: bool) -> None:
        self.output, self.show_values = output, show_values
        self._report: tuple[tuple[object, ...], str] | None = None
        self._rendering = threading.Lock()

    def overview(self) -> Overview:
        """Return the verdicts of the publications, and the daemon."""
        verdicts, waiting = tuple(verdicts_of(self.output)), tuple(held(self.output))
        return Overview(utc_text(time.time()), _daemon(self.output), verdicts, waiting, self.links())

    def links(self) -> Links:
        """Return the addresses of dossiers and assessments in the console."""
        links = {}
        for publication, paths in papers(self.output).items():
            links[publication] = {name: f"/papers/{quote(publication, safe='')}/{name}" for name in paths}
        return links

    def paper(self, publication: str, name: str) -> str | None:
        """Return the page of a dossier or an assessment; None if there is none.

        Publication and name come from a browser. They are only compared, and never used as a path.

        Parameters
        ----------
        publication, name
            Name of the publication, and of the page.
        """
        path = papers(self.output).get(publication, {}).get(name)
        return None if path is None else path.read_text(encoding="utf-8")

    def report(self) -> str:
        """Return the report on the folder as it is now.

        It takes seconds if there are many releases. One report is made at a time, and kept until the ledger has another
        entry.
        """
        with self._rendering:
            stamp = self._stamp()
            if self._report is None or self._report[0] != stamp:
                page = render(collect(self.output, show_values=self.show_values), home="/", papers=self.links())
                self._report = (stamp, page)
            return self._report[1]

    def has_attempts(self) -> bool:
        """Return whether the ledger names a publication: without one there is nothing to report."""
        history = read(self.output)
        return bool(history.rows or history.names)

    def _stamp(self) -> tuple[object, ...]:
        """Return a stamp that changes whenever the ledger is written, or a document of an officer comes."""
        ledger = OperatorLayout(self.output).ledger
        ledger_files = [ledger.with_name(ledger.name + end) for end in ("", "-wal")]
        documents = [path for paths in papers(self.output).values() for path in paths.values()]
        return (*(_written(path) for path in ledger_files), *documents)


def _written(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_mtime_ns, status.st_size


def _daemon(output: Path) -> Daemon | None:
    status = read_status(output)
    if status is None:
        return None
    now = time.time()
    return Daemon(status, max(0.0, now - status["at"]), standstill(status, now), tuple(gaps_of(status)))


def folder(output: Path, *, show_values: bool) -> Folder:
    """Return an output folder, checked.

    Parameters
    ----------
    output
        The folder.
    show_values
        Whether pages show values of the log.

    Raises
    ------
    InputError
        If it is no output folder, or cannot be read.
    """
    ledger_in(output)
    operator = OperatorLayout(output).root
    if not os.access(operator, os.R_OK | os.X_OK):
        raise InputError(f"{operator}: cannot be read; run the console as the user who runs the daemon")
    return Folder(output, show_values=show_values)
