"""Read the releases of a publication as one log, as recipients hold them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from models.errors import InputError, NoEventsError, RefusedError
from veilstream._arguments import checked
from veilstream._logs import TIME_BASIS, _warn, read_log
from veilstream._wording import python_words

if TYPE_CHECKING:
    import pandas as pd


@python_words()
@checked
def read_series(folder: str | os.PathLike[str]) -> pd.DataFrame:
    """Read everything that the releases of a publication hold, as one DataFrame.

    * Releases that are increments: all releases of the newest set. Earlier sets are left out, since the
      first release of a set holds everything again.
    * Releases of `cases = "completed"`: all of them, since each holds other cases. A warning names a release
      that is missing before one that is in the folder.
    * Other releases: the newest, which holds everything so far.

    Each file is compared with its manifest, and each release of a set with the manifest of the newest one.

    Parameters
    ----------
    folder
        Local folder of the publication, such as out/public/research, with a folder for each release.

    Returns
    -------
    pandas.DataFrame
        One row per event, with the columns of `read_log`.

    Raises
    ------
    InputError
        A release of the set is missing, a file is not the one that its manifest names, or the releases hold
        no log or no event.
    RefusedError
        A newer program wrote the releases.

    Examples
    --------
    >>> import tempfile
    >>> from veilstream import read_series, replay
    >>> window = {"name": "weekly", "window": {"every": "91d"}, "release": "increment"}
    >>> groups = {"mechanism": {"kind": "tlkc-cohorts", "K": 20, "L": 1, "C": 1}}
    >>> with tempfile.TemporaryDirectory() as output:
    ...     series = replay("examples/hospital.xes.gz", publication={**window, **groups}, output=output)
    ...     log = read_series(f"{output}/public/weekly")
    >>> len(log) == series.releases[-1].document["counts"]["events"]
    True
    """
    import pandas as pd

    from connectors.store.base import MANIFEST, parse_manifest
    from stream.release.increments import log_files, release_folders
    from stream.release.manifest import VERSION

    folders = release_folders(Path(folder))
    manifests = [parse_manifest((path / MANIFEST).read_bytes(), str(path / MANIFEST)) for path in folders]
    newest = manifests[-1]
    if newest["version"] > VERSION:
        raise RefusedError(f"{folders[-1]}: manifest version {newest['version']} is newer than this program")
    # Manifests of earlier versions say so in their budget alone.
    budget = newest.get("budget") or {}
    each_case_once = newest.get("cases") == "completed" or budget.get("scope") == "cases"
    first = 0 if each_case_once else len(folders) - 1
    if each_case_once:
        _check_chain(folders, manifests)
    files: list[Path] = []
    for path, manifest in zip(folders[first:], manifests[first:], strict=True):
        files += log_files(path, manifest)

    frames = []
    for file in files:
        try:
            frames.append(read_log(file))
        except NoEventsError:  # a release of noise, or of a window without cases
            continue
    if not frames:
        raise InputError(f"{folder}: the releases hold no event")
    log = pd.concat(frames, ignore_index=True)
    log.attrs[TIME_BASIS] = newest["time_basis"]
    return log


def _check_chain(folders: Sequence[Path], manifests: Sequence[Mapping[str, Any]]) -> None:
    """Warn of releases that are missing before others, and refuse one that its successor does not name."""
    from connectors.store.base import MANIFEST, digest

    folder_of = {manifest["sequence"]: folder for folder, manifest in zip(folders, manifests, strict=True)}
    for folder, manifest in zip(folders, manifests, strict=True):
        previous, chain = manifest.get("previous"), manifest.get("chain")
        if previous is None or chain is None:  # the first release, or one of an earlier version
            continue
        if previous not in folder_of:
            _warn(f"{folder.parent}: release {previous} is not here, so its cases are not in the log; get it too")
            continue
        path = folder_of[previous] / MANIFEST
        if digest(path) != chain["previous_manifest"]:
            raise InputError(f"{path}: not the manifest that {folder.name} names; get the release again")
