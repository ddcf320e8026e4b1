"""The release process on this commit: versions and changelog, equal builds, and the wheel as a user without rights."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from tests.conftest import ROOT, missing

NOBODY = 65534
SMALL = """
[process]
name = "wheel"
[[publication]]
name = "plain"
window = { new_cases = 1000 }
mechanism = { kind = "identity" }
audit = { anonymity = false, series = false, leakage = false, utility = false }
"""
"""Seven kernels: the example has them all, which takes a minute to compile."""


def _script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "deploy" / "release" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


release, libraries = _script("release"), _script("libraries")


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files as they lie here, as one commit of a repository of their own."""
    there = tmp_path_factory.mktemp("clone") / "veilstream"
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in names.decode().split("\0"):
        if name and not name.startswith(("tests/", "benchmarks/", "docs/")) and (ROOT / name).is_file():
            (there / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, there / name)
    _git(there, "init", "--quiet")
    _commit(there, "files")
    return there


def _git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=tests", "-c", "user.email=tests@example.org")
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def _commit(folder: Path, message: str) -> None:
    _git(folder, "add", "--all")
    _git(folder, "commit", "--quiet", "--message", message)


def _refused(root: Path) -> str:
    with pytest.raises(release.ReleaseError) as told:
        release.check(root, root / "out")
    return str(told.value)


def test_a_release_needs_its_section_a_clean_commit_one_version_and_its_tag(clone: Path, tmp_path: Path) -> None:
    """Each in turn stands against it, until nothing does."""
    pytest.importorskip("towncrier", reason="towncrier is not installed (extra `check`)")
    root = tmp_path / "veilstream"
    shutil.copytree(clone, root)
    assert "has no section" in _refused(root)
    release.prepare(root, "1.2.3")
    assert release.version(root) == "1.2.3"
    assert list((root / "changelog.d").iterdir()) == [root / "changelog.d" / "README.md"]
    assert "uncommitted changes" in _refused(root)
    _commit(root, "version 1.2.3")
    assert "no tag v1.2.3" in _refused(root)
    _git(root, "tag", "v1.2.3")
    release.check(root, root / "out")
    chart = root / "deploy" / "helm" / "veilstream" / "Chart.yaml"
    chart.write_text(chart.read_text().replace("1.2.3", "1.2.2"))
    assert "says version 1.2.2, pyproject.toml 1.2.3" in _refused(root)
    shutil.copy(clone / "changelog.d" / "README.md", root / "changelog.d" / "26.fixed.md")
    chart.write_text(chart.read_text().replace("1.2.2", "1.2.3"))
    assert "1 fragments are in no version" in _refused(root)


@pytest.fixture(scope="module")
def built(clone: Path) -> Path:
    """Wheel and sdist of the clone."""
    if importlib.util.find_spec("build") is None:
        missing("build", "build is not installed (extra `test`)")
    out = clone / "out" / "release"
    release.build(clone, out)
    return Path(out)


def test_two_builds_are_equal_and_one_that_differs_is_refused(
    built: Path, clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`build` compares them itself; here the second one comes out a byte longer."""
    assert {path.suffix for path in built.glob("veilstream-*")} == {".whl", ".gz"}
    kept = {path.name: path.read_bytes() for path in built.glob("veilstream-*")}
    run, builds = release.run, count()

    def longer(*command: object, **options: object) -> str:
        if "build" not in command:
            return str(run(*command, **options))
        there = Path(str(command[command.index("--outdir") + 1]))  # type: ignore[arg-type]
        there.mkdir()
        for name, body in kept.items():
            (there / name).write_bytes(body + b" " * next(builds) if name.endswith(".whl") else body)
        return ""

    monkeypatch.setattr(release, "run", longer)
    with pytest.raises(release.ReleaseError, match=r"differ: veilstream-.*\.whl"):
        release.build(clone, built)
    assert {path.name: path.read_bytes() for path in built.glob("veilstream-*")} == kept


def test_digests_are_of_the_files_and_the_signature_is_of_the_digests(
    built: Path, clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a key there is no signature; with one it holds for the file, and for no other."""
    monkeypatch.delenv("MINISIGN_KEY_FILE", raising=False)
    release.sign(clone, built)
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=built, check=True, capture_output=True)
    assert len((built / "SHA256SUMS").read_text().splitlines()) == 2
    assert not (built / "SHA256SUMS.minisig").exists()
    minisign = pytest.importorskip("minisign", reason="py-minisign is not installed (extra `release`)")
    pair = minisign.KeyPair.generate()
    (tmp_path / "key").write_bytes(bytes(pair.secret_key))
    monkeypatch.setenv("MINISIGN_KEY_FILE", str(tmp_path / "key"))
    release.sign(clone, built)
    signature = minisign.Signature.from_file(built / "SHA256SUMS.minisig")
    pair.public_key.verify((built / "SHA256SUMS").read_bytes(), signature)
    with pytest.raises(minisign.VerifyError):
        pair.public_key.verify(b"others", signature)


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user can reach; pytest's own are for its user only."""
    folder = Path(tempfile.mkdtemp(prefix="veilstream-wheel-"))
    folder.chmod(0o755)
    yield folder
    subprocess.run(["chmod", "-R", "u+w", str(folder)], check=True)
    shutil.rmtree(folder)


def _python(place: Path, tree: Path) -> tuple[list[str], str]:
    """How to run Python as a user who can write nothing of the program, and the path of modules."""
    site = next(one for one in sys.path if one.endswith("site-packages") and (Path(one) / "numba").is_dir())
    modules = f"{tree}{os.pathsep}{site}"
    if os.geteuid():
        return [sys.executable], modules
    drop = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups", "--"]
    for python in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
        words = [*drop, python, "-c", "import numba, pm4py"]
        found = shutil.which(python) and subprocess.run(
            words, cwd=place, env={"PYTHONPATH": modules, "HOME": str(place), "PATH": os.environ["PATH"]}
        )
        if found and found.returncode == 0:
            return [*drop, python], modules
    pytest.skip("no Python of this version is readable by another user")


def test_the_wheel_runs_read_only_as_nobody_and_keeps_its_kernels(built: Path, place: Path) -> None:
    """The image's situation: a tree that its user cannot write, a home and a cache of its own. Templates are in the
    wheel, and the second run compiles nothing."""
    tree, home = place / "tree", place / "home"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--target", str(tree)]
    subprocess.run([*install, str(release.wheel(built))], check=True)
    root = place / "root"
    shutil.copytree(ROOT / "examples", root / "examples")
    (root / "examples" / "hospital.toml").write_text(SMALL)
    shutil.copy(ROOT / "pyproject.toml", root)
    subprocess.run(["chmod", "-R", "a-w,a+rX", str(tree), str(root)], check=True)
    home.mkdir()
    python, modules = _python(place, tree)
    if not os.geteuid():
        os.chown(home, NOBODY, NOBODY)
    program = place / "veilstream"
    program.write_text(f'#!/bin/sh\nexec {" ".join(python)} -m stream.commands "$@"\n')
    program.chmod(0o755)
    release.use(program, root, home, PYTHONPATH=modules, PYTHONDONTWRITEBYTECODE="1")
    assert not list(tree.rglob("*.nbc"))
    owners = {path.stat().st_uid for path in home.rglob("*")}
    assert owners == {os.geteuid() or NOBODY}


def _steps(name: str) -> list[str]:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / f"{name}.yml").read_text())
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    return [step["run"] for step in steps if "run" in step]


def test_what_the_workflows_run_is_there() -> None:
    """Every `make` of a step has its target, in each row of a matrix; make itself says so, and runs nothing."""
    targets = {
        target.replace("${{ matrix.libraries }}", kind)
        for name in ("checks", "release")
        for step in _steps(name)
        for target in re.findall(r"^make (.+)$", step, re.M)
        for kind in ("oldest", "newest")
    }
    assert targets == {"check", "test", "test-oldest", "test-newest", "release"}
    for target in targets:
        done = subprocess.run(["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert subprocess.run(["make", "--dry-run", "no-such"], cwd=ROOT, capture_output=True).returncode


def test_the_release_workflow_writes_the_key_only_where_there_is_one(tmp_path: Path) -> None:
    """The step itself, run by a shell."""
    step = next(step for step in _steps("release") if "MINISIGN_KEY" in step)
    environment = tmp_path / "environment"
    environment.touch()
    given = {"RUNNER_TEMP": str(tmp_path), "GITHUB_ENV": str(environment), "PATH": os.environ["PATH"]}
    for key, told in (("", ""), ("line one\nline two", f"MINISIGN_KEY_FILE={tmp_path}/minisign.key\n")):
        subprocess.run(["bash", "-e", "-c", step], env={**given, "MINISIGN_KEY": key}, check=True)
        assert environment.read_text() == told
    assert (tmp_path / "minisign.key").read_text() == "line one\nline two\n"


def test_the_oldest_libraries_are_the_lower_bounds() -> None:
    """Of every dependency, and of the extras that are asked for."""
    project = {"project": {"dependencies": ["a>=1.2", "b-c>=3; sys_platform == 'linux'"],
                           "optional-dependencies": {"test": ["d>=4"], "check": ["e>=5"]}}}  # fmt: skip
    assert libraries.bounds(project) == ["a==1.2", "b-c==3", "d==4"]
