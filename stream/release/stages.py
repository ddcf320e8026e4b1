"""The external inputs of an attempt: what a publication's pipeline reads of the other publications of its process."""

from __future__ import annotations

from collections.abc import Iterable

from models.dp.budget import Charge
from stream.ledger.sqlite import Account


class ProcessAccounts:
    """Hold the ledger accounts of all publications of a process, former ones included.

    A limit of the process caps all publications together, and manifests count the releases of all. Each pipeline adds
    its own account. What publications spent that the configuration no longer names stays spent.
    """

    def __init__(self, former: Iterable[Account] = ()) -> None:
        self._accounts = {account.publication: account for account in former}

    def add(self, account: Account) -> None:
        """Add the account of a configured publication."""
        self._accounts[account.publication] = account

    def spent_elsewhere(self, publication: str) -> Charge:
        """Return what all other publications have spent."""
        return sum((account.spent for account in self._others(publication)), Charge())

    def sealed_elsewhere(self, publication: str, *, charged: bool) -> int:
        """Return how many numbers all other publications have sealed; only the charged ones if `charged`."""
        return sum(account.sealed(charged=charged) for account in self._others(publication))

    def _others(self, publication: str) -> list[Account]:
        return [account for name, account in self._accounts.items() if name != publication]
