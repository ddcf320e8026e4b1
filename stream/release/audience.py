"""The releases that recipients of one audience hold: all of its publications, in order of publication.

A recipient of two publications compares their releases as if they were one series: if windows differ, one of them
shows a few cases more than the other, and these are isolated. So audits and gates of a publication look back at every
release of its audience, also at those of a publication that the configuration no longer names, and mechanisms that
remember share one memory. Releases whose records are not persons (Amun, differential privacy) do not belong to it: each
such publication is a series of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, overload

from connectors.files import bytes_writer
from models.errors import RefusedError, UnreadableError
from stream.ledger import release_record
from stream.ledger.entries import SealEntry
from stream.ledger.folder import OperatorFolder, rewrite, write_compact, write_json
from stream.ledger.layout import MEMORY
from stream.ledger.mirror import Mirror
from stream.ledger.release_record import ReleaseRecord
from stream.ledger.sqlite import Ledger
from stream.ledger.view import LedgerView, ReleaseKey
from stream.release import audit_document as documents
from stream.release.contract import Audit, Build, Mechanism
from stream.release.documents import AuditDocument
from stream.release.mechanisms import kinds
from stream.release.stages import MechanismMemory, ReleaseInputs

log = logging.getLogger("veilstream")

KEPT_MEMORIES = 10
"""Number of the last published releases of a publication that keep the state that its mechanism left.

The next build reads the last one alone, and each holds every case released before it: without a limit they grow
with the square of the releases. The others are for a person who has to look at what happened.
"""

NO_MEMORY = b"null"

# The published and sealed releases of an audience, as audits look back at them.


class Earlier(Sequence[ReleaseRecord]):
    """Earlier releases of an audience, oldest first.

    The last `reach` records are in memory (None: all). An older one is read again when it is asked for, which only an
    erasure does: a daemon's memory does not grow with releases that nobody compares any more.
    """

    def __init__(
        self, read: Callable[[ReleaseKey], ReleaseRecord], keys: Iterable[ReleaseKey], reach: int | None
    ) -> None:
        self._read, self._reach = read, reach
        self._keys = list(keys)
        near = self._keys
        if reach is not None:
            near = self._keys[max(0, len(self._keys) - reach) :]
        self._held: dict[ReleaseKey, ReleaseRecord] = {}
        self._lost: set[ReleaseKey] = set()
        """Releases that could not be read; `read_lost` tries again."""
        for key in near:
            try:
                self._held[key] = read(key)
            except UnreadableError as error:
                # The process starts nevertheless: publications to other audiences continue.
                name, number = key
                log.error("release %d of %s: %s; cuts that look back at it are refused", number, name, error)
                self._lost.add(key)

    def read_lost(self) -> None:
        """Read again what could not be read before.

        Raises
        ------
        UnreadableError
            If a file of a release is still gone or damaged.
        """
        for key in sorted(self._lost):
            self._held[key] = self._read(key)
            self._lost.discard(key)

    def __len__(self) -> int:
        """Return the number of releases."""
        return len(self._keys)

    @overload
    def __getitem__(self, place: int) -> ReleaseRecord: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[ReleaseRecord]: ...
    def __getitem__(self, place: int | slice) -> ReleaseRecord | Sequence[ReleaseRecord]:
        """Return a release, or a list of them; an old one is read from its file."""
        if isinstance(place, slice):
            return [self[index] for index in range(*place.indices(len(self)))]
        key = self._keys[place]
        if key in self._held:
            return self._held[key]
        return self._read(key)

    def __setitem__(self, place: int, record: ReleaseRecord) -> None:
        """Replace a record that was written again.

        Values that audits keep with other releases are based on the old record, so they are dropped.
        """
        for loaded in self._held.values():
            loaded.cache.clear()
        if self._keys[place] in self._held:
            self._held[self._keys[place]] = record

    def append(self, record: ReleaseRecord) -> None:
        """Add the release that was sealed last."""
        self._keys.append(record.key)
        self._held[record.key] = record
        if self._reach is not None and len(self) > self._reach:
            out_of_reach = self._keys[-self._reach - 1]
            self._held.pop(out_of_reach, None)
            self._lost.discard(out_of_reach)


def reach(audits: Iterable[Audit]) -> int | None:
    """Return how many earlier releases the audits look back at, at most; None: all."""
    longest = 0
    for audit in audits:
        if audit.looks_back is None:
            return None
        longest = max(longest, audit.looks_back)
    return longest


class Audience:
    """One series over the publications `members`; `name` is None if it is a publication's own."""

    def __init__(
        self,
        name: str | None,
        members: Collection[str],
        ledger: Ledger,
        folder: OperatorFolder,
        *,
        max_lookback: int | None = None,
        mirror: Mirror | None = None,
    ) -> None:
        self.name, self.members, self.folder, self.mirror = name, tuple(members), folder, mirror
        self._ledger, self._reach = ledger, max_lookback
        self._memory: tuple[ReleaseKey, Any] | None = None
        """Memory that the mechanism of one release left: it grows with the log, and is not read again for every cut."""
        self._looked_at: set[ReleaseKey] = set()
        """Releases whose cases `newly_shown` has compared with those that wait."""

    @cached_property
    def seals(self) -> dict[ReleaseKey, SealEntry]:
        """Seals of the releases of the series, in order. They are read at the first use, after recovery."""
        return _released_to(self._ledger.view, self.name, self.members)

    @cached_property
    def earlier(self) -> Earlier:
        """The releases that audits look back at. They are read at the first use, after recovery brought their files."""
        return Earlier(self._read, self.seals, self._reach)

    def append(
        self, record: ReleaseRecord, audit: Mapping[str, Any], seal: SealEntry, build: Build | None = None
    ) -> None:
        """Add the release that was sealed last, shorten the audit of an old one, and drop old states of the mechanism.

        Parameters
        ----------
        record, audit, seal
            The release as audits see it, its audit and its seal.
        build
            Its build, with the state that the mechanism left; that is read from its file if not given.
        """
        self.seals[record.key] = seal
        if build is not None:
            self._memory = record.key, build.memory
        released = record.released(audit, release_record.VariantsFile(self._file(record.key)))
        if build is not None and build.plan is not None:
            # An engine built it because it is large; later audits read what they counted of it.
            released.leave_memory()
        self.earlier.append(released)
        self.thin(record.publication, record.sequence - documents.KEPT_WHOLE)
        self.drop_old_memories(record.publication)

    def inputs(self, publication: str, mechanism: Mechanism) -> ReleaseInputs:
        """Return what an attempt of a publication reads of earlier releases and of the other publications.

        Raises
        ------
        UnreadableError
            If a file of an earlier release is gone or damaged.
        """
        view = self._ledger.view
        account = view.account(publication)
        self.earlier.read_lost()
        existing = account.released_numbers
        last_seal = account.seals[existing[-1]] if existing else None
        # If nothing in the manifest may depend on data, only charged numbers of others count: how many other numbers
        # there are, the data decided.
        charged_only = not mechanism.reads_data_in_gate
        sealed_by_others = view.sealed_elsewhere(publication, charged=charged_only)
        memory_of = None if mechanism.shares_memory else publication  # None: the last one of any publication
        return ReleaseInputs(
            number=account.last_number + 1,
            previous=last_seal,
            previous_audit=self.last_audit(publication),
            earlier=self.earlier,
            memory=self.memory(memory_of),
            spending_elsewhere=view.spending_elsewhere(publication),
            sealed_numbers=len(account.seals) + sealed_by_others,
            erased=account.erased,
            erased_releases=frozenset(account.erased_releases),
            resource_form=account.resource_form,
        )

    def newly_shown(self, cases: Collection[str]) -> list[str]:
        """Return which of some cases releases show that no earlier call has looked at.

        The first call of a process looks at all releases. So a case that waits in an old state of the fold is not shown
        again.

        Parameters
        ----------
        cases
            Pseudonyms of all cases that wait for a release, at a cut behind all those that were decided.

        Raises
        ------
        UnreadableError
            If the file of a release is gone or damaged.
        """
        waiting, shown = set(cases), []
        new = [key for key in self.seals if key not in self._looked_at]
        for key in new:
            stored = release_record.VariantsFile(self._file(key))
            shown += [case for case in stored.case_ids() if case in waiting]
        # Behind the loop: a file that cannot be read leaves all of them to the next cut.
        self._looked_at.update(new)
        return shown

    def last_audit(self, publication: str) -> AuditDocument:
        """Return audit.json of the last release of a publication; empty before the first one."""
        existing = self._ledger.view.account(publication).released_numbers
        return self.audit_of((publication, existing[-1])) if existing else {}

    def memory(self, publication: str | None) -> MechanismMemory | None:
        """Return the state that the mechanism of the last release left.

        Of one publication, or of all if `publication` is None.
        """
        candidates = (key for key in reversed(self.seals) if publication in (None, key[0]))
        last = next(candidates, None)
        if last is None:
            return None
        if self._memory is None or self._memory[0] != last:
            self._memory = last, documents.read_memory(self.folder.release(*last))
        return MechanismMemory(self._memory[1], publication=last[0], kind=self.made_by(last))

    def made_by(self, key: ReleaseKey) -> str:
        """Return the kind of the mechanism of a release: a configuration that changed since may name another."""
        return self.audit_of(key)["mechanism"]["kind"]

    def audit_of(self, key: ReleaseKey) -> AuditDocument:
        """Return audit.json of a sealed release."""
        return documents.read_audit(self.folder.release(*key))

    def thin(self, publication: str, number: int) -> None:
        """Shorten the audit of a release that was published long ago. A crash here leaves it as it was."""
        published = self._ledger.view.account(publication).published
        # The next audit continues that of the last release, so it stays whole.
        if number not in published or max(published) == number:
            return
        path = self.folder.layout.audit(publication, number)
        try:
            shorter = documents.thinned(documents.read_audit(path.parent)) if path.is_file() else None
        except RefusedError as error:
            # The new release is out; a later reader of this audit reports the error again.
            log.warning("an old audit is not shortened: %s", error)
            return
        if shorter is not None:
            rewrite(self.folder.ops, path, write_json(shorter))

    def drop_old_memories(self, publication: str) -> None:
        """Empty the memory of the mechanism in the folders of old releases. A crash here leaves it as it was."""
        published = sorted(self._ledger.view.account(publication).published)
        for number in published[:-KEPT_MEMORIES]:
            path = self.folder.release(publication, number) / MEMORY
            if path.is_file() and path.stat().st_size > len(NO_MEMORY):
                rewrite(self.folder.ops, path, bytes_writer(NO_MEMORY))

    def forget(self, key: ReleaseKey, cases: Collection[str]) -> None:
        """Remove erased cases from the memory of the mechanism that a release left."""
        folder = self.folder.release(*key)
        memory = documents.read_memory(folder)
        without_cases = kinds()[self.made_by(key)].forget(memory, cases)
        self._memory = None
        if without_cases != memory:
            rewrite(self.folder.ops, folder / MEMORY, write_compact(without_cases))

    def _read(self, key: ReleaseKey) -> ReleaseRecord:
        return self.record(key, self.seals[key])

    def record(self, key: ReleaseKey, seal: SealEntry) -> ReleaseRecord:
        """Return a sealed release as audits see it, also one that is held and no part of the series."""
        folder = self.folder.release(*key)
        if self.mirror is not None and not folder.exists():  # of a publication that is configured no more
            self.mirror.bring(*key, seal.body.operator, self.folder)
        stored = release_record.VariantsFile(self._file(key))
        return release_record.read(stored.path).released(self.audit_of(key), stored, publication=key[0])

    def _file(self, key: ReleaseKey) -> Path:
        return self.folder.layout.variants(*key)


def _released_to(view: LedgerView, name: str | None, members: Collection[str]) -> dict[ReleaseKey, SealEntry]:
    """Return the seals of the releases that an audience has, in the order in which they left.

    A seal from before there were audiences belongs to the audience that the configuration names for its publication.

    Raises
    ------
    RefusedError
        If a publication has sealed a release for another audience, since all its releases are in one folder.
    """
    for seal in view.seals.values():
        sealed_for = seal.body.audience
        if seal.publication in members and name is not None and sealed_for not in (None, name):
            raise RefusedError(
                f"publication {seal.publication}: release {seal.sequence} went to audience {sealed_for}, the "
                f"configuration says {name}; set it back, or give the publication another name"
            )
    return {
        key: seal
        for key, seal in view.releases.items()
        if seal.publication in members or (name is not None and seal.body.audience == name)
    }


def refuse_apart(seals: Mapping[ReleaseKey, SealEntry], name: str, shared: Collection[str]) -> None:
    """Refuse publications that share a memory and have each released before there were audiences.

    One case may then be published in two forms, which cannot be repaired.

    Parameters
    ----------
    seals
        All seals of the process.
    name
        Name of the audience.
    shared
        Its publications that share a memory.
    """
    # Seals of earlier programs name no audience: their publications had no memory in common.
    without_audience = {publication for (publication, _), seal in seals.items() if seal.body.audience is None}
    apart = sorted(without_audience & set(shared))
    if len(apart) > 1:
        raise RefusedError(
            f"publications {' and '.join(apart)} have released to audience {name} without knowing of each other; give "
            "them different audiences (audience = ...)"
        )
