"""The release process on this commit: versions and changelog, equal builds, and the wheel as a user without rights."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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
    """The files as they are here, as one commit of a repository of their own."""
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
    with pytest.raises(release.ReleaseError) as caught:
        release.check(root, root / "out")
    return str(caught.value)


def test_a_release_needs_its_section_a_clean_commit_one_version_and_its_tag(clone: Path, tmp_path: Path) -> None:
    """Each in turn is against it, until nothing does."""
    pytest.importorskip("towncrier", reason="towncrier is not installed (extra `check`)")
    root = tmp_path / "veilstream"
    shutil.copytree(clone, root)
    # This commit may be a version itself: without its section it is none.
    changelog = root / "CHANGELOG.md"
    changelog.write_text(changelog.read_text().partition("\n## ")[0] + "\n")
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
    assert "has version 1.2.2, pyproject.toml 1.2.3" in _refused(root)
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
    (built / "SHA256SUMS.minisig").touch()
    release.sign(clone, built)  # a signature of before is of other digests
    assert not (built / "SHA256SUMS.minisig").exists()
    if importlib.util.find_spec("minisign") is None:
        missing("minisign", "py-minisign is not installed (extra `check`)")
    import minisign

    pair = minisign.KeyPair.generate()
    (tmp_path / "key").write_bytes(bytes(pair.secret_key))
    monkeypatch.setenv("MINISIGN_KEY_FILE", str(tmp_path / "key"))
    release.sign(clone, built)
    signature = minisign.Signature.from_file(built / "SHA256SUMS.minisig")
    pair.public_key.verify((built / "SHA256SUMS").read_bytes(), signature)
    with pytest.raises(minisign.VerifyError):
        pair.public_key.verify(b"others", signature)


def test_who_receives_a_release_verifies_it_with_the_program_of_minisign(
    built: Path, clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the key that it makes and the commands of docs/releasing.md; a byte more in SHA256SUMS is refused."""
    program = shutil.which("minisign")
    if program is None or importlib.util.find_spec("minisign") is None:
        missing("minisign", "minisign or py-minisign is not installed (Debian's minisign; extra `check`)")
    secret, public = tmp_path / "veilstream.key", tmp_path / "veilstream.pub"
    subprocess.run([program, "-G", "-W", "-s", secret, "-p", public], check=True, capture_output=True)
    monkeypatch.setenv("MINISIGN_KEY_FILE", str(secret))
    release.sign(clone, built)
    verify = [program, "-V", "-p", str(public), "-m", "SHA256SUMS"]
    assert subprocess.run(verify, cwd=built, capture_output=True).returncode == 0
    with (built / "SHA256SUMS").open("a") as sums:
        sums.write("\n")
    assert subprocess.run(verify, cwd=built, capture_output=True).returncode == 1
    release.sign(clone, built)


PINNED = f"python:3.11-slim-bookworm@sha256:{'0' * 64}"
DOCKER = """#!{python}
import io, json, sys, tarfile
from pathlib import Path
words = sys.argv[1:]
asked = Path({asked!r})
before = asked.read_text() if asked.exists() else ""
asked.write_text(before + json.dumps(words) + "\\n")
assert (Path(words[-1]) / "pyproject.toml").is_file()
target = dict(part.split("=", 1) for part in words[words.index("--output") + 1].split(","))["dest"]
digests = {digests!r}
body = json.dumps({{"manifests": [{{"digest": digests[before.count("\\n")]}}]}}).encode()
with tarfile.open(target, "w") as archive:
    info = tarfile.TarInfo("index.json")
    info.size = len(body)
    archive.addfile(info, io.BytesIO(body))
"""
"""Replaces Docker: records its arguments, and writes images with the digests that it was given."""


def _docker(folder: Path, monkeypatch: pytest.MonkeyPatch, *digests: str) -> Path:
    folder.mkdir()
    asked = folder / "asked"
    program = folder / "docker"
    program.write_text(DOCKER.format(python=sys.executable, asked=str(asked), digests=digests))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return asked


@pytest.mark.parametrize("base", ["", "python:3.11-slim-bookworm", f"{PINNED[:-1]}", f"{PINNED} more"])
def test_an_image_needs_a_base_with_its_digest(
    base: str, clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tag is another image tomorrow. Nothing is built."""
    asked = _docker(tmp_path / "bin", monkeypatch)
    monkeypatch.setenv("BASE", base)
    with pytest.raises(release.ReleaseError, match=f"^BASE is {re.escape(base) or 'empty'}: name the base"):
        release.image(clone, tmp_path)
    assert not asked.exists()
    monkeypatch.setenv("BASE", "none")
    release.image(clone, tmp_path)
    assert not asked.exists()


def test_the_image_is_built_twice_of_the_commit_on_the_pinned_base(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the commit's time, and no cache between the two; the file next to it states base and digest."""
    asked = _docker(tmp_path / "bin", monkeypatch, "sha256:one", "sha256:one")
    monkeypatch.setenv("BASE", PINNED)
    release.image(clone, tmp_path)
    record = json.loads((tmp_path / f"veilstream-{release.version(clone)}.image.json").read_text())
    assert record == {"base": PINNED, "digest": "sha256:one"}
    time = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=clone, capture_output=True, text=True).stdout
    builds = [json.loads(line) for line in asked.read_text().splitlines()]
    assert len(builds) == 2
    for words in builds:
        assert {f"BASE={PINNED}", f"SOURCE_DATE_EPOCH={time.strip()}", "--no-cache"} <= set(words)


def test_two_images_that_differ_are_not_handed_out(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The archive goes too, so that `sign` does not sign it."""
    _docker(tmp_path / "bin", monkeypatch, "sha256:one", "sha256:two")
    monkeypatch.setenv("BASE", PINNED)
    with pytest.raises(release.ReleaseError, match="two images of one commit differ: sha256:one, sha256:two"):
        release.image(clone, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["bin"]


@contextmanager
def _reachable_folder() -> Iterator[Path]:
    """A folder that every user can reach; pytest's own are for its user only."""
    folder = Path(tempfile.mkdtemp(prefix="veilstream-wheel-"))
    folder.chmod(0o755)
    yield folder
    subprocess.run(["chmod", "-R", "u+w", str(folder)], check=True)
    shutil.rmtree(folder)


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder of this test's own."""
    with _reachable_folder() as folder:
        yield folder


def _python(place: Path, tree: Path) -> tuple[list[str], str]:
    """Return the command that runs Python as a user without write access to the program, and the path of modules."""
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


@dataclass(frozen=True)
class Installed:
    """The wheel in a folder of its own, and the home of a user who has run the demo first."""

    tree: Path
    home: Path
    demo: subprocess.CompletedProcess[str]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run Python in the home with nothing but the wheel and its libraries."""
        # -S: an editable installation of this checkout would come first otherwise.
        return _run_python(self.tree, self.home, "-S", *words)


def _run_python(tree: Path, home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    site = next(one for one in sys.path if one.endswith("site-packages") and (Path(one) / "numba").is_dir())
    environment = {
        "PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": f"{tree}{os.pathsep}{site}", "PYTHONUTF8": "1",
    }  # fmt: skip
    return subprocess.run([sys.executable, *words], cwd=home, env=environment, capture_output=True, text=True)


def _copy_kernels(tree: Path) -> None:
    """Copy the compiled kernels of this checkout to the same modules of an installed wheel."""
    for package in ("models", "connectors", "stream"):
        for index in (ROOT / package).rglob("*.nbi"):
            # `module.function-LINE.py311.nbi` in `__pycache__`, next to the code:
            # `module.function-LINE.py311.1.nbc`.
            source = index.parent.parent / f"{index.name.partition('.')[0]}.py"
            installed_source = tree / source.relative_to(ROOT)
            if not installed_source.is_file() or installed_source.read_bytes() != source.read_bytes():
                continue
            # numba compares the time of a source with that in the index.
            shutil.copystat(source, installed_source)
            cache = tree / index.parent.relative_to(ROOT)
            cache.mkdir(exist_ok=True)
            for kept in index.parent.glob(f"{index.stem}.*"):
                shutil.copy2(kept, cache)


@pytest.fixture(scope="module")
def installed(built: Path) -> Iterator[Installed]:
    """No checkout: the wheel alone, with the compiled kernels of this checkout if it has any.

    A wheel without them compiles for more than a minute.
    test_the_wheel_runs_read_only_as_nobody_and_keeps_its_kernels begins without any, and CI runs `make
    demo` in a fresh clone.
    """
    with _reachable_folder() as place:
        tree, home = place / "tree", place / "home"
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"]
        subprocess.run([*install, "--target", str(tree), str(release.wheel(built))], check=True)
        assert not list(tree.rglob("*.nbc"))
        _copy_kernels(tree)
        home.mkdir()
        yield Installed(tree, home, _run_python(tree, home, "-S", "-m", "stream.commands", "demo"))


def test_the_demo_runs_from_the_wheel_alone_in_an_empty_folder(installed: Installed) -> None:
    """No checkout, no compiled code, nothing but the wheel and its libraries: verdict, releases, report, next commands.

    pm4py mines what the demo left for recipients.
    """
    home, done = installed.home, installed.demo
    assert done.returncode == 0, done.stderr
    assert "[+] SAFE: research: 11 releases" in done.stdout
    assert "  veilstream inspect YOUR.csv" in done.stdout
    assert (home / "veilstream-demo" / "report.html").stat().st_size > 10_000
    log = "veilstream-demo/releases/public/research/release-000011/log.xes.gz"
    mined = f"import pm4py; print(len(pm4py.discover_dfg(pm4py.read_xes({log!r}))[0]))"
    counted = installed.run("-W", "ignore", "-c", mined)
    assert counted.returncode == 0, counted.stderr
    assert int(counted.stdout.splitlines()[-1]) > 10
    again = installed.run("-m", "stream.commands", "demo")
    assert again.returncode == 2
    assert "veilstream-demo: exists already" in again.stderr


def test_the_tutorial_runs_from_the_wheel_alone(installed: Installed) -> None:
    """The cells of the notebook, in a folder without the checkout: own CSV, DataFrame, pm4py, attacks, noise.

    The wheel has the markers of types.
    """
    tree = installed.tree
    assert sorted(path.parent.name for path in tree.glob("*/py.typed")) == [
        "connectors",
        "models",
        "stream",
        "veilstream",
    ]
    notebook = json.loads((ROOT / "docs" / "tutorial.ipynb").read_text(encoding="utf-8"))
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    program = "\n".join([*cells, "print(vs.__file__)"])
    done = installed.run("-W", "ignore", "-c", program)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == str(tree / "veilstream" / "__init__.py")
    assert "[+] SAFE: research" in done.stdout
    assert (installed.home / "release.xes.gz").stat().st_size > 1_000


def _steps(name: str) -> list[str]:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / f"{name}.yml").read_text())
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    return [step["run"] for step in steps if "run" in step]


def test_make_release_asks_for_the_base() -> None:
    """Its words reach the step; without any the step refuses."""
    for given, beginning in (([], "BASE=''"), ([f"BASE={PINNED}"], f"BASE='{PINNED}'")):
        done = subprocess.run(["make", "--dry-run", "release", *given], cwd=ROOT, capture_output=True, text=True)
        (line,) = [line for line in done.stdout.splitlines() if "release.py check" in line]
        assert line.startswith(beginning)
        assert " image " in line


def test_the_release_workflow_pins_the_base_of_the_dockerfile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The step itself, with a registry's answer."""
    step = next(step for step in _steps("release") if "imagetools" in step)
    docker, environment = tmp_path / "docker", tmp_path / "environment"
    docker.write_text(f'#!/bin/sh\n[ "$4" = python:3.11-slim-bookworm ] && echo {PINNED.split("@")[1]}\n')
    docker.chmod(0o755)
    given = {"GITHUB_ENV": str(environment), "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run(["bash", "-e", "-c", step], cwd=ROOT, env=given, check=True)
    assert environment.read_text() == f"BASE={PINNED}\n"


def test_what_the_workflows_run_is_there() -> None:
    """Every `make` of a step has its target, in each row of a matrix; make itself is asked, and runs nothing."""
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
    for key, expected in (("", ""), ("line one\nline two", f"MINISIGN_KEY_FILE={tmp_path}/minisign.key\n")):
        subprocess.run(["bash", "-e", "-c", step], env={**given, "MINISIGN_KEY": key}, check=True)
        assert environment.read_text() == expected
    assert (tmp_path / "minisign.key").read_text() == "line one\nline two\n"


def test_every_library_that_the_tests_import_has_a_lower_bound() -> None:
    """`make test-oldest` takes it; of one without a bound it would take the first version that there ever was."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    asked, left = list(project["dependencies"]), ["test", "plot"]
    while left:
        for one in extras[left.pop()]:
            own = re.fullmatch(r"veilstream\[([\w,]+)\]", one)
            left += own[1].split(",") if own else []
            asked += [] if own else [one]
    assert len(asked) > 50
    assert [one for one in asked if not re.match(r"[\w.-]+(\[[\w,]+\])?>=\d", one)] == []


@pytest.mark.parametrize(("which", "resolution"), [("oldest", "lowest-direct"), ("newest", "highest")])
def test_an_environment_is_made_once_for_a_pyproject(
    which: str, resolution: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the resolution that its name says, again when pyproject.toml is another, and never where the installer failed
    half way."""
    (tmp_path / "pyproject.toml").write_text("first")
    monkeypatch.setattr(libraries, "ROOT", tmp_path)
    made: list[Path] = []
    monkeypatch.setattr(libraries.venv, "create", lambda folder, **_: (folder.mkdir(parents=True, exist_ok=True),
                                                                       made.append(folder)))  # fmt: skip
    ran: list[list[str]] = []

    def run(words: list[str], *, check: bool) -> None:
        assert check
        ran.append(words)
        if (tmp_path / "broken").exists() and "uv" in words:
            raise subprocess.CalledProcessError(1, words)

    monkeypatch.setattr(libraries.subprocess, "run", run)
    (tmp_path / "broken").touch()
    with pytest.raises(subprocess.CalledProcessError):
        libraries.environment(which)
    (tmp_path / "broken").unlink()
    for _ in range(2):
        python = libraries.environment(which)
    assert len(made) == 2
    (tmp_path / "pyproject.toml").write_text("second")
    assert libraries.environment(which) == python == made[0] / "bin" / "python"
    assert len(made) == 3
    install = ran[-1]
    assert install[install.index("--resolution") + 1] == resolution
    assert install[-1] == f"{tmp_path}[test,plot]"
