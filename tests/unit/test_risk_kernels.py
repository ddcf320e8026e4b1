"""Compiled kernels if nothing can be cached."""

from __future__ import annotations

import numba
import pytest

from models.compiled import kernel


def test_no_folder_for_a_cache_is_no_reason_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """If numba finds no writable folder, the kernel is compiled in memory; other errors are not swallowed."""
    plain = numba.njit

    def refusing(function: object = None, **options: object) -> object:
        if options.get("cache"):
            raise RuntimeError(message)
        return plain(function)

    monkeypatch.setattr(numba, "njit", refusing)
    message = "cannot cache function 'f': no locator available for file 'f.py'"
    assert kernel(_twice)(21) == 42
    message = "something else"
    with pytest.raises(RuntimeError, match="something else"):
        kernel(_twice)


def _twice(number: int) -> int:
    return 2 * number
