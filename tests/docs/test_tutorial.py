"""The tutorial, docs/tutorial.ipynb, runs as a notebook, and shows what it was saved with."""

from __future__ import annotations

import gzip
import importlib.util
import os
import re
import tempfile
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.conftest import ROOT

NOTEBOOK = ROOT / "docs" / "tutorial.ipynb"
RANDOM = "random"
"""Tag of cells whose output has random ids or noise, or depends on the machine."""

pytestmark = [
    pytest.mark.slow,
    # Of the client of kernels, about itself.
    pytest.mark.filterwarnings("ignore::DeprecationWarning:jupyter_client.*"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:zmq.*"),
]


def shown(cell: Any) -> list[str]:
    """The texts of a cell's outputs, without warnings."""
    texts = [output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell.outputs
             if output.get("name") != "stderr"]  # fmt: skip
    return [text.rstrip() for text in texts]


@pytest.fixture(scope="module")
def saved() -> Any:
    """The notebook as it is in the checkout."""
    return nbformat.read(NOTEBOOK, as_version=4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder without the checkout."""
    return tmp_path_factory.mktemp("notebook")


@pytest.fixture(scope="module")
def run(folder: Path) -> Any:
    """The notebook after each cell ran in order, in one kernel."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "JUPYTER_PLATFORM_DIRS": "1"}
    client = NotebookClient(
        notebook,
        timeout=900,
        kernel_name="python3",
        # A kernel on a busy machine can send two `print`s of a cell as two messages.
        coalesce_streams=True,
        resources={"metadata": {"path": str(folder)}},
    )
    client.execute(env=environment)
    return notebook


def code(notebook: Any) -> list[Any]:
    """The cells of code."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def output_of(notebook: Any, words: str) -> str:
    """Return the output of the only cell whose source contains these words."""
    (cell,) = [cell for cell in code(notebook) if words in cell.source]
    return "\n".join(shown(cell))


def test_the_saved_outputs_are_those_of_a_run(run: Any, saved: Any) -> None:
    """A reader of the site sees what the program says today."""
    compared = 0
    for before, after in zip(code(saved), code(run), strict=True):
        if RANDOM in before.metadata.get("tags", []):
            assert len(shown(before)) == len(shown(after))
            continue
        assert shown(before) == shown(after), before.source
        compared += bool(shown(after))
    assert compared >= 8


def test_the_reader_gets_what_the_text_says(run: Any, folder: Path) -> None:
    """The refusal, the saved file with its header, two releases that break the promise, a series that keeps it."""
    assert "has no time zone; name the zone of the log with timezone=... (such as Europe/Berlin)" in output_of(
        run, "except vs.InputError"
    )
    assert "1970-01-01" in output_of(run, "release.log.head()")
    header = gzip.decompress((folder / "release.xes.gz").read_bytes()).decode().split("<trace>")[0]
    assert "tlkc" in header
    (row,) = re.findall(r"^0 +0 +(.*)$", output_of(run, "vs.attack("), re.MULTILINE)
    ka1, ka2, *_, ba = map(int, row.split())
    assert ba < 20 <= min(ka1, ka2)
    assert f"Here {ba} patients are left" in "".join(cell.source for cell in run.cells)
    assert output_of(run, "vs.replay(log").startswith("[+] SAFE")
    assert "every person" in output_of(run, "vs.synthesize(")
    assert "1970-01-01" in output_of(run, "noisy.log.head()")
    assessed = output_of(run, "vs.assess(")
    assert "not seen" in assessed


def test_the_notebook_is_small_and_names_no_folder_of_a_host(saved: Any) -> None:
    """Outputs are few; no run number, no path, no traceback, no script is committed."""
    text = NOTEBOOK.read_text(encoding="utf-8")
    assert len(text) < 60_000
    # A home of "/", as some containers have, would be in every address.
    of_this_host = {ROOT, Path.home(), Path(tempfile.gettempdir())} - {Path("/")}
    folders = [*map(str, of_this_host), "/home/", "/Users/", "/root/", "/tmp/"]
    assert [folder for folder in folders if folder in text] == []
    assert not re.search(r"ipykernel_|Traceback|<script|<style", text)
    assert all(cell.execution_count is None for cell in code(saved))


def test_the_page_of_the_site_has_each_cell(saved: Any) -> None:
    """Text, code and outputs in order; tables without styles of their own."""
    spec = importlib.util.spec_from_file_location("notebooks", ROOT / "deploy" / "site" / "notebooks.py")
    assert spec is not None
    assert spec.loader is not None
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    page = hook.page_of(NOTEBOOK)
    places = [page.index(cell.source) for cell in saved.cells]
    assert places == sorted(places)
    assert page.startswith("# Tutorial in Python\n")
    assert "[Download this page as a notebook](tutorial.ipynb)" in page
    assert "<table" in page
    assert "<style" not in page
