"""What a mechanism makes of an exposure, as it leaves and as audits see it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from models.anonymize.sensitive import refuse_identifying
from models.errors import BoundError, InputError
from models.eventlog import EventLog
from stream.ledger.release_record import ReleaseRecord
from stream.ledger.sqlite import Account
from stream.release.contract import Build, Exposure
from stream.release.planned import BuiltBy, Place
from stream.release.public_view import pseudonymous_resources, with_attributes
from stream.release.spec import PublicationSpec
from stream.values.pseudonym import Pseudonyms


@dataclass(frozen=True, slots=True)
class Builder:
    """The mechanism of one publication, with the names under which resources and attributes leave."""

    spec: PublicationSpec
    account: Account
    pseudonyms: Pseudonyms
    built_by: BuiltBy | None = None
    """Who builds in the place of the mechanism here; what is built is checked, audited and gated alike."""

    def build(self, exposure: Exposure, memory: Any, number: int, cut: str) -> Build:
        """Anonymize. BoundError where no release can keep the promise; `memory`: what the last release left; `number`:
        the one that this release will have, if it leaves."""
        self._refuse_identifying(exposure)
        own, mechanism, shape = (
            replace(exposure, publication=self.spec.name),
            self.spec.mechanism,
            self.spec.accumulation,
        )
        if self.built_by is not None:
            built = self.built_by(Place(self.spec.name, number, cut), mechanism, own)
        elif shape is None:
            built = mechanism.build(own, memory)
        else:
            built = mechanism.build_series(own, memory, shape, number)
        return self.outer(built, exposure)

    def _refuse_identifying(self, exposure: Exposure) -> None:
        """Not for dp mechanisms: they release no attribute, and a refusal would read the data."""
        mechanism = self.spec.mechanism
        if mechanism.releases_attributes:
            try:
                refuse_identifying(exposure.log, exposure.linked, getattr(mechanism, "bins", None))
            except InputError as error:
                raise BoundError(str(error)) from None

    def outer(self, build: Build, exposure: Exposure) -> Build:
        """The build with resources and attributes as they leave."""
        named = replace(build, log=self.named(build.log))
        return with_attributes(named, self.spec.attributes, exposure, self.spec.mechanism)

    def named(self, log: EventLog) -> EventLog:
        """The log with its resources as releases name them."""
        if self.spec.raw_resources or self.spec.roles is not None:
            return log
        process = self.spec.process if self.account.resource_form == "process" else None
        return pseudonymous_resources(log, self.pseudonyms, process, named=True)

    def record(self, build: Build, exposure: Exposure, number: int) -> ReleaseRecord:
        """The candidate as audits see it: source pseudonyms in place of case ids."""
        ids = tuple("" if case < 0 else exposure.log.case_ids[case] for case in build.origin)
        log = replace(build.log, case_ids=ids)
        return ReleaseRecord(number, log, build.carries, build.T, exposure.linked, publication=self.spec.name)
