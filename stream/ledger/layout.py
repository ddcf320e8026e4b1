"""Paths in the operator's folder, and names in its mirror: the only place that spells them.

    DIR/public/<publication>/release-000012/        releases of a local store (`connectors.store`)
    DIR/operator/ledger.sqlite, key, lock, checkpoints/, .configuration.json
    DIR/operator/archived_events/<segment>          events of released cases, if no mirror has them
    DIR/operator/<publication>/000012/              audit.json, memory.json, variants.parquet of one release,
                                                    assessment.json if the publication asks for it
    DIR/operator/<publication>/held/<temporary>/    public files of a release that waits for approval
    DIR/operator/status.json, .faust/               of a daemon
    DIR/operator/ended_build.json                   of a daemon that ended because a build took too long
    DIR/operator/started_build.json                 of a daemon, while it builds; left if it is killed meanwhile
    DIR/operator/comparison.json, bad-rows.csv      of a replay
    DIR/operator/for_officers/<publication>/        dossier.html, assessment.html, alternatives.json

The mirror of a process is in the store under `operator/<process>/`.
"""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from typing import NamedTuple

from connectors.store.base import HELD

OPERATOR = "operator"
LEDGER = "ledger.sqlite"
KEY = "key"
LOCK = "lock"
CHECKPOINTS = "checkpoints"
ARCHIVE = "archived_events"
"""In the mirror of a daemon, or in the operator's folder. No publication's name has an underscore."""
ERASED = "erased.sealed"
ARCHIVE_ERASED = f"{ARCHIVE}/{ERASED}"
"""Digests of erased cases that no segment contains any more. It is in no backup, whose segments may be older."""
LISTED = "segments.sealed"
ARCHIVE_LISTED = f"{ARCHIVE}/{LISTED}"
"""Names of the segments, so that a deleted one is missed. It is in no backup, whose segments may be others."""
CONFIGURATION = ".configuration.json"
STATUS = "status.json"
ENDED_BUILD = "ended_build.json"
STARTED_BUILD = "started_build.json"
FAUST = ".faust"
COMPARISON = "comparison.json"
BAD_ROWS = "bad-rows.csv"
FOR_OFFICERS = "for_officers"
"""Pages to sign. No publication's name has an underscore."""

AUDIT = "audit.json"
MEMORY = "memory.json"
VARIANTS = "variants.parquet"
ASSESSMENT = "assessment.json"
"""Attacks on held-out cases, next to the audit if the publication requests them. No later release needs it."""

MAP_COUNTS = "dfg.json"
"""The released counts of a process map. The other files of the map are drawn from them."""

OPERATOR_FILES = (AUDIT, MEMORY, VARIANTS)
"""The operator's files of a release."""

LEDGER_FILES = (LEDGER, f"{LEDGER}-wal", f"{LEDGER}-shm")
"""The file of the ledger, and the files of SQLite while a process writes."""

NOT_PUBLICATIONS = {
    *(LEDGER, KEY, LOCK, CHECKPOINTS, CONFIGURATION, FAUST, STATUS, "status.tmp", BAD_ROWS, FOR_OFFICERS, ARCHIVE),
    *(ENDED_BUILD, STARTED_BUILD),
    "quarantine",  # of earlier programs
}
"""Names in the operator's folder that are not publication's."""


def release_folder(number: int) -> str:
    """Return the name of the folder with the operator's files of a release."""
    return f"{number:06d}"


def mirror_root(process: str) -> str:
    """Return the folder of a process's mirror in the store."""
    return f"{OPERATOR}/{process}"


def mirror_name(publication: str, temporary: str) -> str:
    """Return the name of a release's files in the mirror.

    Parameters
    ----------
    publication
        Name of the publication.
    temporary
        Name of the folder as the seal states it. It begins with a dot and ends in `.tmp`; the name in the mirror
        does not.
    """
    return f"{publication}/{temporary.lstrip('.').removesuffix('.tmp')}"


def mirror_slot(number: int) -> str:
    """Return the name of one of the checkpoints in the mirror."""
    return f"{CHECKPOINTS}/{number}"


class ArchiveSegment(NamedTuple):
    """Name of a segment of the archive.

    Attributes
    ----------
    day
        Day (UTC) of the last event of each of its cases, in days since 1970-01-01. The name has its date.
    number
        Number of the drop by which its events left the state.
    bucket
        First hexadecimal digits of the digests of its cases; "" if the segment has all cases of the day.
    """

    day: int
    number: int
    bucket: str = ""

    @property
    def path(self) -> str:
        """Name of the segment in the mirror or in the operator's folder."""
        bucket = f".{self.bucket}" if self.bucket else ""
        day = date.fromordinal(_DAY_ZERO + self.day).isoformat()
        return f"{ARCHIVE}/{day}.{self.number:08d}{bucket}.sealed"

    @property
    def in_order(self) -> tuple[int, int, str]:
        """Key that sorts segments by their drops."""
        return self.number, self.day, self.bucket

    @classmethod
    def parse(cls, name: str) -> ArchiveSegment | None:
        """Return the segment with the last part of a `path`; None for another file."""
        match = _SEGMENT.fullmatch(name)
        if match is None:
            return None
        return cls(date.fromisoformat(match[1]).toordinal() - _DAY_ZERO, int(match[2]), match[3] or "")


_DAY_ZERO = date(1970, 1, 1).toordinal()
_SEGMENT = re.compile(r"(\d{4}-\d{2}-\d{2})\.(\d{8,})(?:\.([0-9a-f]+))?\.sealed")


class OperatorLayout:
    """Paths below one output folder.

    Parameters
    ----------
    output
        The output folder of a daemon or a replay.
    """

    def __init__(self, output: Path) -> None:
        self.output = output

    @property
    def root(self) -> Path:
        """The operator's folder."""
        return self.output.joinpath(OPERATOR)

    @property
    def ledger(self) -> Path:
        """The file of the ledger."""
        return self.output.joinpath(OPERATOR, LEDGER)

    @property
    def key(self) -> Path:
        """The pseudonym key."""
        return self.output.joinpath(OPERATOR, KEY)

    @property
    def lock(self) -> Path:
        """The file that the process using the folder has locked."""
        return self.output.joinpath(OPERATOR, LOCK)

    @property
    def checkpoints(self) -> Path:
        """The folder of the checkpoints."""
        return self.output.joinpath(OPERATOR, CHECKPOINTS)

    @property
    def archive(self) -> Path:
        """The folder of the archive, unless the mirror has it."""
        return self.output.joinpath(OPERATOR, ARCHIVE)

    @property
    def configuration(self) -> Path:
        """The configuration that the folder was made with. No publication's name begins with a dot."""
        return self.output.joinpath(OPERATOR, CONFIGURATION)

    @property
    def status(self) -> Path:
        """The status of a daemon."""
        return self.output.joinpath(OPERATOR, STATUS)

    @property
    def ended_build(self) -> Path:
        """The build because of which a daemon has ended, until its cut is decided."""
        return self.output.joinpath(OPERATOR, ENDED_BUILD)

    @property
    def started_build(self) -> Path:
        """The build that a daemon has begun, and how often; left behind by a process that was killed meanwhile."""
        return self.output.joinpath(OPERATOR, STARTED_BUILD)

    @property
    def comparison(self) -> Path:
        """The comparison that a replay made."""
        return self.output.joinpath(OPERATOR, COMPARISON)

    @property
    def bad_rows(self) -> Path:
        """The rows that a replay could not read."""
        return self.output.joinpath(OPERATOR, BAD_ROWS)

    def alternatives(self, publication: str) -> Path:
        """Return the path of the alternatives with other parameters, as a dossier computed them."""
        return self.output.joinpath(OPERATOR, FOR_OFFICERS, publication, "alternatives.json")

    def dossier(self, publication: str) -> Path:
        """Return the path of the last dossier of a publication."""
        return self.output.joinpath(OPERATOR, FOR_OFFICERS, publication, "dossier.html")

    def assessment(self, publication: str) -> Path:
        """Return the path of the page on the assessments that the last dossier of a publication used."""
        return self.output.joinpath(OPERATOR, FOR_OFFICERS, publication, "assessment.html")

    def publication(self, name: str) -> Path:
        """Return the folder of a publication."""
        return self.output.joinpath(OPERATOR, name)

    def release(self, publication: str, number: int) -> Path:
        """Return the folder with the operator's files of a release."""
        return self.output.joinpath(OPERATOR, publication, release_folder(number))

    def audit(self, publication: str, number: int) -> Path:
        """Return the path of the audit of a release."""
        return self.output.joinpath(OPERATOR, publication, release_folder(number), AUDIT)

    def attacks_before(self, publication: str, number: int) -> Path:
        """Return the path of the attacks on held-out cases that were made before a release."""
        return self.output.joinpath(OPERATOR, publication, release_folder(number), ASSESSMENT)

    def variants(self, publication: str, number: int) -> Path:
        """Return the path of the records of a release as audits see them."""
        return self.output.joinpath(OPERATOR, publication, release_folder(number), VARIANTS)

    def held(self, publication: str, temporary: str) -> Path:
        """Return the folder with the public files of a release that waits for approval."""
        return self.output.joinpath(OPERATOR, publication, HELD, temporary)

    def faust(self, role: str) -> Path:
        """Return the folder in which the Faust application of a daemon's role keeps its data."""
        return self.output.joinpath(OPERATOR, FAUST, role)
