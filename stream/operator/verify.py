"""Check a whole output folder against its ledger: bytes, chain, numbers and budgets. Reads only, and takes no lock.

The ledger states what was charged and sealed, manifests state the same to recipients, and both describe the files.
An error in one of them is detected by the other two. Tampering with all three is not detected here; recipients detect
it through the manifest chain. Nor is a charge that was taken out of the ledger behind the last release.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import msgspec
from fsspec.core import url_to_fs

from connectors.store.base import HELD, MANIFEST, FileEntry, digest, release_name, release_number
from connectors.store.blobs import open_blobs
from connectors.store.reached import ReachedFileSystem, reaching
from models.dp.account import AccountedLoss, Rule, agrees, loss
from models.dp.budget import Charge, exact, shown
from models.dp.spending import Spending
from models.dp.zcdp import Accounting
from models.errors import RefusedError
from stream.ledger.archive import FORMAT as ARCHIVE_FORMAT
from stream.ledger.archive import Archive
from stream.ledger.checkpoints import CURRENT, PREVIOUS, generation_at
from stream.ledger.checkpoints import FORMAT as CHECKPOINT
from stream.ledger.entries import SealBody
from stream.ledger.envelope import Damaged, Keys, header_of, unseal
from stream.ledger.folder import BUILDING, UNFINISHED, ledger_in, read_digests
from stream.ledger.layout import (
    AUDIT,
    LEDGER,
    NOT_PUBLICATIONS,
    OPERATOR,
    OPERATOR_FILES,
    OperatorLayout,
    release_folder,
)
from stream.ledger.sqlite import NewerLedgerError, owner_of, read_view
from stream.ledger.view import HIDDEN, Account
from stream.release.reason import only_waits

Kind = Literal[
    "ledger",
    "number",
    "missing",
    "bytes",
    "manifest",
    "chain",
    "budget",
    "unknown",
    "operator",
    "checkpoint",
    "archive",
]


@dataclass(frozen=True, slots=True)
class VerifyProblem:
    """A check that failed.

    Attributes
    ----------
    kind, text
        The kind of check, and a sentence for people.
    publication, sequence
        The release that it concerns; empty and 0 if it concerns none.
    """

    kind: Kind
    text: str
    publication: str = ""
    sequence: int = 0


@dataclass(slots=True)
class Checked:
    """Counts of the checks of one publication."""

    name: str
    releases: int = 0
    waiting: int = 0
    burned: int = 0
    withheld: int = 0
    waited: int = 0
    """Cuts that released nothing because they waited, for more cases or behind a held release."""
    held: int = 0
    rejected: int = 0
    superseded: int = 0
    """Held releases that a later one replaced before a person decided."""
    files: int = 0
    bytes: int = 0
    epsilon: float = 0.0
    delta: float = 0.0
    """Epsilon and delta of everything that was charged, without a limit of delta (`models.dp.account`)."""
    rule: Rule = "sum"
    """Rule by which they were computed."""


@dataclass(slots=True)
class VerifyResult:
    """Findings of `verify`.

    Attributes
    ----------
    publications
        Counts of the checks of each publication.
    problems
        Checks that failed.
    notes
        Repairs that the next start makes, and facts that could not be checked.
    """

    process: str = ""
    publications: list[Checked] = field(default_factory=list)
    problems: list[VerifyProblem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Return whether nothing is missing or different."""
        return not self.problems

    def document(self) -> dict[str, Any]:
        """Return the result as JSON."""
        return {"holds": self.holds, **asdict(self)}


def verify(output: Path, store: str | None = None, keys: Keys | None = None) -> VerifyResult:
    """Check everything under `output`, and the releases in `store` if they are not in the folder.

    Parameters
    ----------
    output
        The output folder.
    store
        Folder or fsspec URL of the releases, if another one.
    keys
        The storage keys. Without them encrypted checkpoints are not checked, and a note states this.

    Returns
    -------
    VerifyResult
        The findings. A damaged ledger is one of them.

    Raises
    ------
    InputError
        If there is no ledger.
    NewerLedgerError
        If a later program wrote the ledger.
    """
    ledger = ledger_in(output, "a replay or daemon (public files alone: `veilstream statement` compares their sums)")
    layout, tree = OperatorLayout(output), _Tree(store or str(output))
    # Listed before the ledger is read: a release that a running process seals meanwhile is then in the ledger too.
    listed = tree.publications()
    result = VerifyResult()
    try:
        result.process = owner_of(ledger)
        view = read_view(ledger, result.process)
    except NewerLedgerError:
        raise
    except (RefusedError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        why = "an entry is not an entry; restore it from a backup"
        if isinstance(error, RefusedError):
            why = str(error)
        if str(ledger) not in why:
            why = f"{ledger}: {why}"
        result.problems.append(VerifyProblem("ledger", why))
        return result
    # Accounts also exist for names that only a note or an erasure mentions: nothing of these is in a folder.
    accounts = {name: account for name, account in view.accounts.items() if account.has_attempts}
    for account in accounts.values():
        _check_entries(result, account)
    for account in accounts.values():
        _Publication(result, tree, layout, account).check()
    _unknown_public(result, listed, accounts)
    _unknown_operator(result, layout.root, accounts)
    _checkpoints(result, layout.checkpoints, keys or Keys())
    _archive(result, output, keys or Keys())
    return result


def _check_entries(result: VerifyResult, account: Account) -> None:
    """Report entries about numbers that were never sealed, publications without an approval, and noise not paid for."""
    for charge in account.charge_entries.values():
        body = charge.body
        if body.has_damaged_draws or not agrees(body.charge, body.noise):
            text = (
                f"the charge of cut {charge.cut} states noise that does not cost its epsilon and delta: the entry was "
                "changed or damaged; restore the ledger from a backup. Until then its epsilon and delta count"
            )
            result.problems.append(VerifyProblem("ledger", text, account.publication))
    numbers_in_use = account.published | account.burned.keys() | account.rulings.keys()
    for number in sorted(numbers_in_use - account.seals.keys()):
        text = "is published, burned or decided on, and was never sealed"
        result.problems.append(VerifyProblem("ledger", text, account.publication, number))
    for number in sorted(account.published & account.seals.keys()):
        hidden = _hidden_state(account, number)
        if hidden:
            text = f"is published, and was {hidden}: the ledger has no approval of it"
            result.problems.append(VerifyProblem("ledger", text, account.publication, number))


def _hidden_state(account: Account, number: int) -> str:
    """Return why a sealed release must not be visible: held, rejected or superseded; empty if it may be."""
    state = account.state(number)
    return state if state in HIDDEN else ""


def _checkpoints(result: VerifyResult, folder: Path, keys: Keys) -> None:
    """Read both generations of the state, with their logs of changes."""
    unread = []
    for name in (CURRENT, PREVIOUS):
        path = folder / name
        try:
            with path.open("rb") as file:
                encrypted = header_of(file, CHECKPOINT).nonce is not None
            if encrypted and keys.current is None:
                unread.append(name)
                continue
            fault = generation_at(path, keys, plain_too=True).fault
        except FileNotFoundError:
            continue  # none yet, or a running process is just renaming it
        except (Damaged, RefusedError) as damage:
            fault = f"{path}: {damage}"
        if fault:
            result.problems.append(VerifyProblem("checkpoint", f"{fault}; a start falls back to the other generation"))
    if unread:
        result.notes.append(
            f"operator/checkpoints: {' and '.join(unread)} encrypted, and not checked; give the configuration with -c"
        )


def _archive(result: VerifyResult, output: Path, keys: Keys) -> None:
    """Open each segment of the archive in the operator's folder. The mirror's is checked by those who read it."""
    folder = OperatorLayout(output).archive
    n_unread = 0
    for path in sorted(folder.glob("*.sealed")):
        try:
            with path.open("rb") as file:
                if header_of(file, ARCHIVE_FORMAT).nonce is not None and keys.current is None:
                    n_unread += 1
                    continue
                unseal(file, keys, ARCHIVE_FORMAT, plain_too=True)
        except FileNotFoundError:
            continue  # a running process has just removed it
        except Damaged as damage:
            result.problems.append(VerifyProblem("archive", f"{path}: {damage}; restore it from a backup"))
    archive = Archive(open_blobs(output, OPERATOR), keys)
    missing = archive.missing()
    if missing:
        # A running process may just have removed one in good order. Then its list no longer names it.
        missing = [segment for segment in archive.missing() if segment in missing]
    for segment in missing:
        text = f"{output / OPERATOR / segment.path}: is missing, and its events are in no state"
        result.problems.append(VerifyProblem("archive", f"{text}; restore it from a backup"))
    if n_unread:
        result.notes.append(
            f"operator/{folder.name}: {n_unread} encrypted files are not checked; give the configuration with -c"
        )


class _Publication:
    """The checks of one publication."""

    def __init__(self, result: VerifyResult, tree: _Tree, layout: OperatorLayout, account: Account) -> None:
        self.result, self.tree, self.layout, self.account = result, tree, layout, account
        self.name = account.publication
        waited = sum(only_waits(entry.body.reasons) for entry in account.withheld.values())
        self.checked = Checked(
            self.name,
            burned=len(account.burned),
            withheld=len(account.withheld) - waited,
            waited=waited,
        )
        spent, self.checked.rule = loss(account.accounting, account.spending)
        self.checked.epsilon, self.checked.delta = shown(spent.epsilon), shown(spent.delta)
        self.chained = self.last_released = 0
        self.released: list[int] = []

    def check(self) -> None:
        """Check the numbers, then each release in order."""
        self.result.publications.append(self.checked)
        # Numbers ascend without gaps: a missing one is a seal that somebody removed from the ledger.
        seals = self.account.seals
        last = max(seals, default=0)
        for number in sorted(set(range(1, last + 1)) - seals.keys()):
            self._wrong("number", "was neither sealed nor burned, and a later one was sealed", number)
        for number, seal in sorted(seals.items()):
            state = self.account.state(number)
            if state == "burned":  # its bytes were lost, and a later number replaced it
                continue
            if seal.cut in self.account.withheld:
                self._wrong("ledger", "is of a cut that was withheld", number)
            if state == "held":
                self._held(number, seal.body)
            elif state == "rejected":
                self.checked.rejected += 1
            elif state == "superseded":
                self.checked.superseded += 1
            else:
                self._release(number, seal.body)
                self.last_released = number
                self.released.append(number)

    def _wrong(self, kind: Kind, text: str, number: int) -> None:
        self.result.problems.append(VerifyProblem(kind, text, self.name, number))

    def _release(self, number: int, seal: SealBody) -> None:
        folder = f"{self.name}/{release_name(number)}"
        if not self.tree.exists(f"{folder}/{MANIFEST}"):
            self._hidden(number, seal, folder)
            return
        self.checked.releases += 1
        body = self.tree.read(f"{folder}/{MANIFEST}")
        if hashlib.sha256(body).hexdigest() != seal.manifest:
            self._wrong("manifest", f"{MANIFEST} is not the one that the ledger sealed", number)
        self._files(number, folder, seal.files, also={MANIFEST})
        manifest = _json(body)
        if manifest is None:
            self._wrong("manifest", f"{MANIFEST} is not a JSON object", number)
            return
        self._manifest(number, seal, manifest)
        self._chain(number, manifest)
        self._set(number, manifest)
        self._budget(number, manifest)
        self._check_operator_files(number, manifest)

    def _held(self, number: int, seal: SealBody) -> None:
        """Check a release that waits for a person: its bytes are with the operator, as they were sealed."""
        self.checked.held += 1
        self._missing_operator_files(number)
        folder = self.layout.held(self.name, seal.temporary)
        for name, right in [
            (MANIFEST, seal.manifest),
            *((str(file["path"]), file["sha256"]) for file in seal.files),
        ]:
            path = folder / name
            if not path.is_file():
                self._wrong("missing", f"is held, and its {name} is gone", number)
            elif digest(path) != right:
                self._wrong("bytes", f"is held, and its {name} is not what was sealed", number)

    def _hidden(self, number: int, seal: SealBody, folder: str) -> None:
        """Check a sealed release that is not visible: it waits, or its bytes are gone."""
        if number in self.account.published:
            self._wrong("missing", "was published and is gone", number)
            return
        # Bytes that wait for their moment are on the host that writes to the store, and not at its URL.
        if not self.tree.local:
            self.result.notes.append(f"{self.name} {number}: sealed and not yet published; its bytes are on its host")
            return
        if (self.layout.held(self.name, seal.temporary)).is_dir():
            self.result.notes.append(f"{self.name} {number}: was approved; the next start publishes it")
            return
        waiting = f"{self.name}/{seal.temporary}"
        if not self.tree.exists(f"{waiting}/{MANIFEST}"):
            self._wrong("missing", "is sealed and neither published nor waiting: its bytes are gone", number)
            return
        self.checked.waiting += 1
        if hashlib.sha256(self.tree.read(f"{waiting}/{MANIFEST}")).hexdigest() != seal.manifest:
            self._wrong("manifest", f"{MANIFEST} of the waiting release is not the one that the ledger sealed", number)
        self._files(number, waiting, seal.files, also={MANIFEST})

    def _files(self, number: int, folder: str, sealed: Sequence[FileEntry], also: set[str]) -> None:
        present = set(self.tree.names(folder))
        for file in sealed:
            name = str(file["path"])
            if name not in present:
                self._wrong("missing", f"{name} is gone", number)
                continue
            digest, size = self.tree.digest(f"{folder}/{name}")
            self.checked.files += 1
            self.checked.bytes += size
            if (digest, size) != (file["sha256"], file["bytes"]):
                self._wrong("bytes", f"{name} is not what was sealed", number)
        for name in sorted(present - {str(file["path"]) for file in sealed} - also):
            self._wrong("unknown", f"{name} is named by no seal", number)

    def _manifest(self, number: int, seal: SealBody, manifest: Mapping[str, Any]) -> None:
        for key, right in (("process", self.result.process), ("publication", self.name), ("sequence", number)):
            if manifest.get(key) != right:
                self._wrong("manifest", f"{MANIFEST} says {key} {manifest.get(key)!r}, not {right!r}", number)
        if manifest.get("files") != [dict(file) for file in seal.files]:
            self._wrong("manifest", f"{MANIFEST} lists other files than the ledger sealed", number)

    def _chain(self, number: int, manifest: Mapping[str, Any]) -> None:
        """Check that a manifest names the last release before it, with the sealed digest."""
        seals, burned = self.account.seals, self.account.burned
        before = manifest.get("previous")
        # A release names the one before it. A number that was burned later may be named, too: it was still the last one
        # when the manifest was written.
        is_last_released = (before or 0) == self.last_released
        was_last_then = before in burned and self.last_released < before < number
        if not is_last_released and not was_last_then:
            self._wrong("chain", f"follows {before}, which is not the release before it", number)
            return
        chain = manifest.get("chain")
        if chain is None:
            if self.chained:
                self._wrong("chain", f"names no digest of its predecessor, and release {self.chained} did", number)
            return  # of a program before
        self.chained = number
        if chain.get("previous_manifest") != (None if before is None else seals[before].body.manifest):
            self._wrong("chain", f"names another digest of release {before} than the ledger", number)
        # Two counts are right: a manifest with a dp promise leaves out uncharged releases of other publications, whose
        # number depends on data (`Audience.inputs`).
        totals = self.account.at_seal[number]
        counted = {totals.process_seals, totals.charged_seals}
        if chain.get("releases") not in counted:
            expected = " or ".join(str(number) for number in sorted(counted))
            self._wrong(
                "chain", f"counts {chain.get('releases')} releases of the process, the ledger {expected}", number
            )

    def _set(self, number: int, manifest: Mapping[str, Any]) -> None:
        """Check that an increment names every release of its set before it, each with the sealed digest."""
        section = manifest.get("increment")
        if section is None:
            return
        seals = self.account.seals
        stated = {}
        for member in section.get("earlier", ()):
            stated[member.get("sequence")] = member.get("manifest")
        begin = next(iter(stated), number)

        sealed = {other: seals[other].body.manifest for other in stated if other in seals}
        has_sealed_digests = stated == sealed
        lacks_none = all(other in stated for other in self.released if other >= begin)
        # Without the bytes of a member (its number was burned), nobody can put the set together.
        are_released = all(other in self.released for other in stated)
        begins_where_stated = section.get("first") == begin
        if not (begins_where_stated and has_sealed_digests and lacks_none and are_released):
            self._wrong("chain", "names another set of increments than the ledger's earlier releases", number)

    def _budget(self, number: int, manifest: Mapping[str, Any]) -> None:
        """Check that the budget in a manifest is what the ledger had charged by then."""
        budget = manifest.get("budget")
        paid = self.account.charge_of_cut.get(self.account.seals[number].cut)
        if budget is None:
            if paid is not None:
                self._wrong("budget", "was charged, and its manifest states no budget", number)
            return
        totals = self.account.at_seal[number]
        paid = paid or Charge()
        if self.account.accounting.kind == "zcdp":
            self._rhos(number, budget.get("zcdp") or {}, paid)

        # The stated loss, that of the charges of the ledger, and the words for the message.
        accounting = self._accounting(budget)
        spent = _loss_as_stated(accounting, totals.spending, budget["spent"])
        losses = [(budget["spent"], spent, "says as spent")]
        if "process" in budget:  # not in manifests of programs before
            by_process = budget["process"]["spent"]
            process_spent = _loss_as_stated(accounting, totals.process_spending, by_process)
            losses.append((by_process, process_spent, "says as spent by the process"))
        for stated, right, _ in losses:
            if stated.get("rule", right.rule) != right.rule:
                text = f"says that its spending is {stated['rule']}, by the ledger it is {right.rule}"
                self._wrong("budget", text, number)
        self._amounts(number, budget, accounting.loss(paid), "costs")
        for stated, right, claim in losses:
            self._amounts(number, stated, right.charge, claim)
        limit = budget.get("limit")
        if limit is not None and float(spent.charge.epsilon) > limit:
            text = f"was sealed with {shown(spent.charge.epsilon)} spent, above its limit {limit}"
            self._wrong("budget", text, number)

    def _rhos(self, number: int, stated: Mapping[str, Any], paid: Charge) -> None:
        """Check the rho of a release, and of everything that the publication and the process had spent."""
        totals = self.account.at_seal[number]
        charges = (
            ("rho", paid),
            ("spent", totals.spending.summed),
            ("process", totals.process_spending.summed),
        )
        for name, charge in charges:
            rho = shown(charge.rho)
            if stated.get(name) != rho:
                self._wrong("budget", f"says rho {stated.get(name)} ({name}), the ledger {rho}", number)

    def _amounts(self, number: int, stated: Mapping[str, Any], right: Charge, claim: str) -> None:
        """Check a stated epsilon and delta against the ledger's."""
        for unit, amount in (("epsilon", right.epsilon), ("delta", right.delta)):
            if stated.get(unit) not in (shown(amount), float(amount)):
                text = f"{claim} {stated.get(unit)} {unit}, the ledger {shown(amount)}"
                self._wrong("budget", text, number)

    def _accounting(self, budget: Mapping[str, Any]) -> Accounting:
        """Return the accounting by which a manifest shows charges: it states its own delta of conversion."""
        stated = (budget.get("zcdp") or {}).get("conversion_delta")
        if self.account.accounting.kind == "pure" or not isinstance(stated, float) or not 0 < stated < 1:
            return self.account.accounting
        return Accounting("zcdp", exact(stated))

    def _missing_operator_files(self, number: int) -> list[str]:
        """Check that the operator's files are as they were written last; return the names of those that are gone."""
        folder = self.layout.release(self.name, number)
        digests = read_digests(folder)
        lacking = []
        for name in OPERATOR_FILES:
            path = folder / name
            if not path.is_file():
                lacking.append(name)
            elif name in digests:
                if digest(path) not in digests[name]:
                    self._wrong("operator", f"the operator's {name} is not what was written last", number)
            elif not _readable(path):  # of an earlier program, which left no digests
                self._wrong("operator", f"the operator's {name} cannot be read", number)
        if lacking:
            self._wrong("operator", f"the operator's {', '.join(lacking)} are not in {folder.name}/", number)
        return lacking

    def _check_operator_files(self, number: int, manifest: Mapping[str, Any]) -> None:
        """Check that the operator's files exist and are undamaged, and that the audit is of this release."""
        folder = self.layout.release(self.name, number)
        lacking = self._missing_operator_files(number)
        if AUDIT in lacking:
            return
        audit = _json((folder / AUDIT).read_bytes())
        if audit is None:
            return  # damaged, and reported already
        if any(audit.get(key) != manifest.get(key) for key in ("publication", "sequence", "files", "chain", "budget")):
            self._wrong("operator", "audit.json is not of this manifest", number)


def _loss_as_stated(accounting: Accounting, spending: Spending, stated: Mapping[str, Any]) -> AccountedLoss:
    """Return the loss of a spending by the rule of a manifest, and within the delta that it states.

    Manifests of programs before the account name no rule: they added charges up. The account composes only what a limit
    of delta has room for. The manifest does not need to state that limit: with the delta that was reached in its place,
    the same stretches are composed.
    """
    if "rule" not in stated:
        return AccountedLoss(accounting.loss(spending.summed), "sum")
    delta = stated.get("delta")
    is_probability = isinstance(delta, float) and 0 <= delta <= 1
    return loss(accounting, spending, Fraction(repr(delta)) if is_probability else None)


def _unknown_public(
    result: VerifyResult,
    listed: Mapping[str, list[str]],
    accounts: Mapping[str, Account],
) -> None:
    """Report files and folders of `public/` that no seal names."""
    for name, entries in listed.items():
        account = accounts.get(name, Account(name))
        temporary = {seal.body.temporary for seal in account.seals.values()}
        for entry in entries:
            number = release_number(entry)
            if number is not None and number in account.seals:
                state = account.state(number)
                if state in HIDDEN or state == "burned":
                    text = f"was {state}, and is in the public folder"
                    result.problems.append(VerifyProblem("unknown", text, name, number))
            elif entry.startswith(".") and entry.endswith(".tmp"):
                if entry not in temporary:
                    result.notes.append(f"{name}/{entry}: never sealed; the next start sets it aside")
            elif account.seals or number is not None:
                result.problems.append(VerifyProblem("unknown", f"{entry} is named by no seal", name, number or 0))
            else:
                result.notes.append(f"{name}/{entry}: of no publication of this ledger")


def _unknown_operator(result: VerifyResult, operator: Path, accounts: Mapping[str, Account]) -> None:
    """Report files and folders of the operator that no seal names."""
    for path in sorted(operator.iterdir()):
        if path.name in NOT_PUBLICATIONS or path.name.startswith(f"{LEDGER}-"):
            continue
        if path.name.endswith(UNFINISHED):
            result.notes.append(f"operator/{path.name}: a write that was cut off; the next start removes it")
            continue
        if path.name.startswith(BUILDING):
            result.notes.append(f"operator/{path.name}: of a cut that an engine built; the next start removes it")
            continue
        if not path.is_dir() or path.name not in accounts:
            result.notes.append(f"operator/{path.name}: not veilstream's, or of no entry of the ledger")
            continue
        expected = {release_folder(number) for number in accounts[path.name].seals} | {HELD}
        result.notes += _left_held(path, accounts[path.name])
        for entry in sorted(child.name for child in path.iterdir() if not child.name.startswith(".")):
            if entry not in expected:
                result.problems.append(
                    VerifyProblem("unknown", f"operator/{path.name}/{entry} is named by no seal", path.name)
                )


def _left_held(folder: Path, account: Account) -> list[str]:
    """Return a note on each folder of held bytes that belongs to no held release."""
    seals = account.seals.items()
    waiting = {seal.body.temporary for number, seal in seals if account.state(number) != "rejected"}
    names: list[str] = []
    if (folder / HELD).is_dir():
        names = sorted(path.name for path in (folder / HELD).iterdir())
    return [
        f"operator/{folder.name}/{HELD}/{name}: of no held release; the next start sets it aside"
        for name in names
        if name not in waiting
    ]


class _Tree:
    """Reader of `public/`, in a folder or at an fsspec URL.

    A folder is read without fsspec, whose import costs more than the reading.
    """

    def __init__(self, root: str) -> None:
        fs, base = url_to_fs(root)
        self.local = "file" in fs.protocol
        self._fs: Any = fs if self.local else ReachedFileSystem(fs)
        self._base = f"{base.rstrip('/')}/public"

    def publications(self) -> dict[str, list[str]]:
        """Return the names in the folder of each publication."""
        folders = [name for name in self.names("") if self._fs.isdir(f"{self._base}/{name}")]
        return {name: self.names(name) for name in folders}

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder; empty if there is no such folder."""
        path = f"{self._base}/{folder}".rstrip("/")
        try:
            paths = os.listdir(path) if self.local else self._fs.ls(path, detail=False)
        except FileNotFoundError:
            return []
        names = []
        for path in paths:
            _, _, name = str(path).rstrip("/").rpartition("/")
            names.append(name)
        return sorted(names)

    def exists(self, path: str) -> bool:
        """Return whether there is such a file or folder."""
        full_path = f"{self._base}/{path}"
        return os.path.lexists(full_path) if self.local else bool(self._fs.exists(full_path))

    def read(self, path: str) -> bytes:
        """Return the bytes of a file."""
        with self._reaching(path), self._open(path) as stream:
            body: bytes = stream.read()
            return body

    def digest(self, path: str) -> tuple[str, int]:
        """Return SHA-256 and size of a file."""
        checksum, size = hashlib.sha256(), 0
        with self._reaching(path), self._open(path) as stream:
            for block in _blocks(stream):
                checksum.update(block)
                size += len(block)
        return checksum.hexdigest(), size

    def _reaching(self, path: str) -> AbstractContextManager[None]:
        if self.local:
            return nullcontext()
        return reaching(f"{self._base}/{path}")

    def _open(self, path: str) -> Any:
        full_path = f"{self._base}/{path}"
        if self.local:
            return open(full_path, "rb")
        return self._fs.open(full_path, "rb")


def _blocks(stream: Any) -> Iterator[bytes]:
    while block := stream.read(1 << 20):
        yield block


def _readable(path: Path) -> bool:
    """Return whether one of the operator's files can be read in its format."""
    if path.suffix != ".parquet":
        try:
            msgspec.json.decode(path.read_bytes())
        except (msgspec.DecodeError, UnicodeDecodeError):
            return False
        return True
    from stream.ledger import release_record

    try:
        release_record.read(path)
    except RefusedError:
        return False
    return True


def _json(body: bytes) -> dict[str, Any] | None:
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return document if isinstance(document, dict) else None
