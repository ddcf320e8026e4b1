"""Make a release: `python deploy/release/release.py STEP`; `make release` runs all steps (docs/releasing.md).

    prepare VERSION  write the version to all its places, and CHANGELOG.md from the fragments in changelog.d
    check            one version everywhere, in the changelog and in the tag of this commit; nothing uncommitted
    build            wheel and sdist of this commit, twice: both must be equal byte for byte
    smoke            the wheel in a clean environment: a replay, its report, kernels that the second run finds compiled
    image            the image of this commit on BASE, a name with its sha256 digest, twice: both must have one digest
    sbom             what is in that environment, as CycloneDX JSON
    sign             SHA256SUMS, and a minisign signature of it where MINISIGN_KEY_FILE names a secret key

Everything goes to out/release. Each step prints what it did; the first that fails ends with exit code 1.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = {
    "pyproject.toml": r'^version = "(.+)"$',
    "CITATION.cff": r"^version: (.+)$",
    "deploy/helm/veilstream/Chart.yaml": r'^appVersion: "?([^"\n]+)"?$',
    "deploy/compose.yaml": r"image: veilstream:(.+)$",
    "deploy/Dockerfile": r"-t veilstream:(\S+) ",
}
"""The lines that contain the version."""
PINNED = re.compile(r"\S+@sha256:[0-9a-f]{64}")


class ReleaseError(Exception):
    """A reason against the release, in one line."""


def run(*command: str | Path, cwd: Path = ROOT, **environment: str) -> str:
    """Return the standard output of a command; ReleaseError with its output if it fails."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ReleaseError(f"{Path(command[0]).name} {command[1]} failed ({done.returncode}): {done.stderr[-2000:]}")
    return done.stdout


def version(root: Path = ROOT) -> str:
    """The version of pyproject.toml."""
    return str(tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"])


def prepare(root: Path, wanted: str) -> None:
    """Write the version everywhere, and turn the fragments into a section of the changelog."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", wanted):
        raise ReleaseError(f"{wanted}: a version is three numbers, as 1.2.3")
    for name, pattern in VERSIONS.items():
        text = (root / name).read_text()
        found = list(re.finditer(pattern, text, re.M))
        if not found:
            raise ReleaseError(f"{name}: no line with the version")
        for match in reversed(found):
            text = text[: match.start(1)] + wanted + text[match.end(1) :]
        (root / name).write_text(text)
    run(sys.executable, "-m", "towncrier", "build", "--yes", "--version", wanted, cwd=root)


def check(root: Path, out: Path) -> None:
    """One version everywhere, and a commit that is exactly it."""
    wanted = version(root)
    for name, pattern in VERSIONS.items():
        said = {match[1] for match in re.finditer(pattern, (root / name).read_text(), re.M)}
        if said != {wanted}:
            raise ReleaseError(f"{name}: has version {', '.join(sorted(said)) or 'nothing'}, pyproject.toml {wanted}")
    if not re.search(rf"^## {re.escape(wanted)} \(", (root / "CHANGELOG.md").read_text(), re.M):
        raise ReleaseError(f"CHANGELOG.md: has no section {wanted}; run `make release-prepare VERSION={wanted}`")
    left = sorted(path.name for path in (root / "changelog.d").iterdir() if path.name != "README.md")
    if left:
        raise ReleaseError(f"changelog.d: {len(left)} fragments are in no version ({left[0]}, ...)")
    if changed := run("git", "status", "--porcelain", cwd=root):
        raise ReleaseError(f"the working tree has uncommitted changes ({changed.splitlines()[0].strip()}, ...)")
    tags = run("git", "tag", "--points-at", "HEAD", cwd=root).split()
    if f"v{wanted}" not in tags:
        raise ReleaseError(f"the commit has no tag v{wanted}: `git tag -s v{wanted}`")


def build(root: Path, out: Path) -> None:
    """Two builds of the commit, each in a copy of its own."""
    epoch = run("git", "log", "-1", "--format=%ct", cwd=root).strip()
    made = []
    for _build in range(2):
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "source"
            _copied(root, source)
            run(sys.executable, "-m", "build", "--no-isolation", "--outdir", Path(folder) / "dist", source,
                SOURCE_DATE_EPOCH=epoch)  # fmt: skip
            found = {path.name: path.read_bytes() for path in (Path(folder) / "dist").iterdir()}
            made.append({name: _repacked(body, int(epoch)) if name.endswith(".gz") else body
                         for name, body in found.items()})  # fmt: skip
    if made[0] != made[1]:
        differ = sorted(name for name in made[0] if made[0][name] != made[1].get(name))
        raise ReleaseError(f"two builds of one commit differ: {', '.join(differ)}")
    out.mkdir(parents=True, exist_ok=True)
    for old in [*out.glob("veilstream-*"), *out.glob("SHA256SUMS*")]:
        old.unlink()  # of another commit: it would be signed with the new ones
    for name, body in made[0].items():
        (out / name).write_bytes(body)


def _copied(root: Path, target: Path) -> None:
    """Copy the files of the commit, without other files of the folder."""
    packed = subprocess.run(["git", "archive", "HEAD"], cwd=root, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(target, filter="data")


def _repacked(body: bytes, epoch: int) -> bytes:
    """The sdist with its files in order of their names and one time, owner and mode; setuptools writes those of the
    build."""
    packed = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(body)) as before,
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=epoch) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as after,
    ):
        for member in sorted(before.getmembers(), key=lambda one: one.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = epoch, 0, 0, "", ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            member.pax_headers = {}
            after.addfile(member, before.extractfile(member) if member.isfile() else None)
    return packed.getvalue()


def wheel(out: Path) -> Path:
    """The wheel that `build` made."""
    found = sorted(out.glob("*.whl"))
    if len(found) != 1:
        raise ReleaseError(f"{out}: holds {len(found)} wheels, not one; run `build`")
    return found[0]


def smoke(root: Path, out: Path) -> None:
    """Install the wheel with the pinned libraries, nothing else, and use it away from the sources."""
    home = out / "smoke"
    run("rm", "-rf", home)
    home.mkdir(parents=True)
    venv.create(home / "venv", with_pip=True)
    python = home / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--constraint", root / "constraints.txt", wheel(out), cwd=home)
    use(home / "venv" / "bin" / "veilstream", root, home)


def use(program: Path, root: Path, home: Path, **environment: str) -> None:
    """Replay, report and verify with an installed program; the second replay compiles nothing."""
    cache = home / "numba"
    given = {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": "", "HOME": str(home), **environment}
    if run(program, "--version", cwd=home, **given).strip() != f"veilstream {version(root)}":
        raise ReleaseError("the installed program prints another version")
    kernels = []
    for number in (1, 2):
        folder = home / f"out{number}"
        run(program, "replay", root / "examples" / "hospital.xes.gz", "-c", root / "examples" / "hospital.toml",
            "-o", folder, "--final", cwd=home, **given)  # fmt: skip
        kernels.append({path: path.stat().st_mtime_ns for path in cache.rglob("*.nbc")})
    if not kernels[0]:
        raise ReleaseError(f"no compiled kernel was kept in {cache}")
    if kernels[0] != kernels[1]:
        raise ReleaseError("the second replay compiled kernels again")
    run(program, "report", home / "out1", "-o", home / "report.html", cwd=home, **given)
    if not json.loads(run(program, "verify", home / "out1", "--json", cwd=home, **given))["publications"][0][
        "releases"
    ]:
        raise ReleaseError("the installed program released nothing")


def image(root: Path, out: Path) -> None:
    """The image of the commit as an OCI archive, and what it was made of. BASE=none: no image."""
    base = os.environ.get("BASE", "")
    if base == "none":
        print("image: none (BASE=none)", file=sys.stderr)
        return
    if not PINNED.fullmatch(base):
        raise ReleaseError(
            f"BASE is {base or 'empty'}: name the base of the image with its digest "
            "(python:3.11-slim-bookworm@sha256:...), or BASE=none for a release without an image"
        )
    epoch = run("git", "log", "-1", "--format=%ct", cwd=root).strip()
    target = out / f"veilstream-{version(root)}.oci.tar"
    digests = []
    with tempfile.TemporaryDirectory() as folder:
        _copied(root, Path(folder))
        for _build in range(2):
            run("docker", "buildx", "build", "--file", Path(folder) / "deploy" / "Dockerfile", "--no-cache",
                "--build-arg", f"BASE={base}", "--build-arg", f"SOURCE_DATE_EPOCH={epoch}", "--provenance=false",
                "--output", f"type=oci,dest={target},rewrite-timestamp=true", folder)  # fmt: skip
            digests.append(_digest(target))
    if digests[0] != digests[1]:
        target.unlink()
        raise ReleaseError(f"two images of one commit differ: {digests[0]}, {digests[1]}")
    image = {"base": base, "digest": digests[0]}
    (out / f"veilstream-{version(root)}.image.json").write_text(json.dumps(image) + "\n")


def _digest(archive: Path) -> str:
    """The digest of the one image in an OCI archive."""
    with tarfile.open(archive) as opened:
        index = opened.extractfile("index.json")
        assert index is not None
        (one,) = json.load(index)["manifests"]
    return str(one["digest"])


def sbom(root: Path, out: Path) -> None:
    """Write the list of packages that the smoke test installed, the program first."""
    environment = out / "smoke" / "venv"
    if not environment.is_dir():
        raise ReleaseError(f"{environment}: is not there; run `smoke`")
    target = out / f"veilstream-{version(root)}.cdx.json"
    run(sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible", "--pyproject",
        root / "pyproject.toml", "--output-file", target, environment / "bin" / "python")  # fmt: skip
    names = {one["name"] for one in json.loads(target.read_text())["components"]}
    if lacking := {"numba", "pm4py", "faust-streaming"} - names:
        raise ReleaseError(f"{target.name}: does not name {', '.join(sorted(lacking))}")


def sign(root: Path, out: Path) -> None:
    """Write the digests of the published files, signed if there is a key (password: MINISIGN_PASSWORD)."""
    files = sorted(path for path in out.iterdir() if path.name.startswith("veilstream-") and path.is_file())
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    sums, signature = out / "SHA256SUMS", out / "SHA256SUMS.minisig"
    signature.unlink(missing_ok=True)
    sums.write_text("".join(lines))
    key = os.environ.get("MINISIGN_KEY_FILE")
    if not key:
        print("sign: SHA256SUMS is not signed (MINISIGN_KEY_FILE names no key)", file=sys.stderr)
        return
    import minisign

    secret = minisign.SecretKey.from_file(key)
    if secret.is_encrypted():
        secret.decrypt(os.environ.get("MINISIGN_PASSWORD", ""))
    made = secret.sign(sums.read_bytes(), trusted_comment=f"veilstream {version(root)}")
    signature.write_bytes(bytes(made))


STEPS: dict[str, Callable[[Path, Path], None]] = {
    "check": check, "build": build, "smoke": smoke, "image": image, "sbom": sbom, "sign": sign,
}  # fmt: skip


def main(words: Sequence[str]) -> int:
    root = Path(os.environ.get("RELEASE_ROOT", ROOT))
    try:
        if len(words) == 2 and words[0] == "prepare":
            prepare(root, words[1])
            return 0
        if not words or set(words) - STEPS.keys():
            print(__doc__, file=sys.stderr)
            return 2
        for word in words:
            STEPS[word](root, root / "out" / "release")
            print(f"{word}: done", file=sys.stderr)
    except ReleaseError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
