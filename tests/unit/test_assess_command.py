"""`veilstream assess`: what a user gives, and what they get."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path

import pytest

from stream.commands import execute

ROOT = Path(__file__).resolve().parents[2]
HOSPITAL = ROOT / "examples" / "hospital.xes.gz"


def _write(path: Path, traces: list[str], prefix: str) -> Path:
    lines = ["case,activity,time"]
    for number, trace in enumerate(traces):
        for place, activity in enumerate(trace.split()):
            lines.append(f"{prefix}{number},{activity},2024-01-{number % 28 + 1:02d}T{place:02d}:00:00Z")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


COLUMNS = ["--columns", "case=case,activity=activity,time=time"]


@pytest.fixture
def logs(tmp_path: Path) -> dict[str, str]:
    """Three logs of one process, each with its own cases."""
    traces = ["a b c", "a c b", "b a c d", "a b d", "c a b", "a d b c"]
    return {
        name: str(_write(tmp_path / f"{name}.csv", traces[k:] + traces[:k], name))
        for k, name in enumerate(("original", "control", "release"))
    }


def _json(capfd: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    code = execute(["assess", *words, "--json"])
    captured = capfd.readouterr()
    assert code == 0, captured.err
    body: dict[str, object] = json.loads(captured.out)
    return body


def test_an_assessment_names_all_five_attacks(logs: dict[str, str], capfd: pytest.CaptureFixture[str]) -> None:
    body = _json(capfd, logs["release"], "--original", logs["original"], "--control", logs["control"], *COLUMNS)
    (assessment,) = body["assessments"]  # type: ignore[misc, str-unpack]
    for profile in assessment["profiles"]:
        attacks = dict.fromkeys(measure["attack"] for measure in profile["measures"])
        assert list(attacks) == ["singling out", "linkability", "inference", "membership", "reconstruction"]
    assert [profile["profile"] for profile in assessment["profiles"]] == ["default", "stronger"]
    assert body["warnings"] == []


def test_equal_cases_do_not_look_like_a_release_of_the_control(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Many cases of few variants: the score by density is below that of the control, and nobody mixed them up."""
    traces = ["a b c", "a c b", "b a c", "a b d"] * 30
    files = [str(_write(tmp_path / f"{name}.csv", traces, name)) for name in ("original", "control", "release")]
    words = [files[2], "--original", files[0], "--control", files[1], *COLUMNS]
    assert _json(capfd, *words)["warnings"] == []


def test_a_release_of_the_control_is_noticed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    orders = [" ".join(order) for order in itertools.permutations("abcde")]
    original = str(_write(tmp_path / "original.csv", orders[::2], "original"))
    control = str(_write(tmp_path / "control.csv", orders[1::2], "control"))
    body = _json(capfd, control, "--original", original, "--control", control, *COLUMNS)
    assert "Was the release made from cases of the control?" in str(body["warnings"])


def test_two_assessments_on_a_page_share_the_level(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The newest release is attacked alone and with the earlier one: each measure must be surer than on its own."""
    traces = ["a b c", "a c b", "b a c", "a b d"] * 30
    names = ("original", "control", "release")
    original, control, release = (str(_write(tmp_path / f"{name}.csv", traces, name)) for name in names)
    powers = []
    for releases in ([release], [release, release]):
        words = ["--original", original, "--control", control, "--targets", "120", *COLUMNS]
        body = _json(capfd, *releases, *words)
        measures = body["assessments"][0]["profiles"][0]["measures"]  # type: ignore[index]
        powers += [measure["power"] for measure in measures if "distance" in measure["how"]]
    alone, with_another = powers
    assert 0 < alone < with_another


def test_without_a_control_the_weaker_baseline_is_named(
    logs: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    body = _json(capfd, logs["release"], "--original", logs["original"], *COLUMNS)
    (warning,) = body["warnings"]  # type: ignore[misc, str-unpack]
    assert "There is no control" in warning
    (assessment,) = body["assessments"]  # type: ignore[misc, str-unpack]
    results = {measure["result"] for profile in assessment["profiles"] for measure in profile["measures"]}
    assert "seen" not in results


def test_several_releases_are_attacked_alone_and_together(
    logs: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    body = _json(
        capfd,
        logs["release"],
        logs["control"],
        "--original",
        logs["original"],
        "--m",
        "2",
        "--knowledge",
        "set",
        *COLUMNS,
    )
    attacked = [(one["attacked"], one["released_cases"]) for one in body["assessments"]]  # type: ignore[attr-defined]
    assert attacked == [("newest release alone", 6), ("all releases together", 12)]
    declared = body["assessments"][0]["profiles"][0]  # type: ignore[index]
    assert (declared["profile"], declared["m"], declared["knowledge"]["structure"]) == ("declared", 2, "set")


def test_the_promise_of_a_release_names_the_attacker(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    config = tmp_path / "veilstream.toml"
    config.write_text(
        '[process]\nname = "hospital"\n\n[process.completion]\nend_activities = ["Discharge"]\n\n'
        '[[publication]]\nname = "research"\n'
        "window = { completed_cases = 500 }\n"
        'mechanism = { kind = "tlkc-cohorts", L = 3, K = 5 }\n',
        encoding="utf-8",
    )
    assert execute(["replay", str(HOSPITAL), "-c", str(config), "-o", str(out)]) in (0, 3)
    releases = sorted((out / "public" / "research").glob("release-*"))
    assert releases
    capfd.readouterr()
    body = _json(capfd, str(releases[-1]), "--original", str(HOSPITAL), "--targets", "50")
    (release,) = body["releases"]  # type: ignore[misc, str-unpack]
    assert "3 items" in release["promise"]["guaranteed"]
    (assessment,) = body["assessments"]  # type: ignore[misc, str-unpack]
    assert [(one["profile"], one["m"]) for one in assessment["profiles"]] == [("promised", 3), ("stronger", 6)]


def test_records_of_a_series_are_linked_by_the_operators_folder(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Two releases of one log: their ids are fresh, and the operator's pseudonyms say whose records they are."""
    out = tmp_path / "out"
    config = tmp_path / "veilstream.toml"
    config.write_text(
        '[process]\nname = "hospital"\n\n[process.completion]\nend_activities = ["Discharge"]\n\n'
        '[[publication]]\nname = "research"\n'
        "window = { completed_cases = 800 }\n"
        'mechanism = { kind = "tlkc-cohorts", L = 2, K = 5 }\n',
        encoding="utf-8",
    )
    assert execute(["replay", str(HOSPITAL), "-c", str(config), "-o", str(out)]) in (0, 3)
    releases = sorted((out / "public" / "research").glob("release-*"))
    assert len(releases) >= 2
    capfd.readouterr()
    paths = [str(path) for path in releases[:2]]
    body = _json(capfd, *paths, "--original", str(HOSPITAL), "--targets", "40")
    (pair,) = body["pairs"]  # type: ignore[misc, str-unpack]
    assert pair["targets"] == min(40, pair["common_cases"])
    assert pair["by_chance"] < pair["rate"] <= 1
    assert pair["least_of_fa_ca_ba"] is None or pair["least_of_fa_ca_ba"] >= 1
    # The files alone, without the operator's folder: nobody can be recognised.
    alone = tmp_path / "alone"
    for path in releases[:2]:
        shutil.copytree(path, alone / "a" / "b" / path.name)
    copies = [str(alone / "a" / "b" / path.name) for path in releases[:2]]
    body = _json(capfd, *copies, "--original", str(HOSPITAL), "--targets", "40")
    (pair,) = body["pairs"]  # type: ignore[misc, str-unpack]
    assert "no case is recognised in both" in pair["reason"]


def test_a_mechanism_is_assessed_on_both_halves_of_the_log(capfd: pytest.CaptureFixture[str]) -> None:
    body = _json(
        capfd, "--original", str(HOSPITAL), "--mechanism", "tlkc", "--set", "K=20", "--set", "L=2", "--targets", "50"
    )
    (assessment,) = body["assessments"]  # type: ignore[misc, str-unpack]
    assert assessment["both_ways"]
    # All cases of the bundled log (examples/generate.py) were in one release, and outside of the other.
    assert assessment["original_cases"] == assessment["control_cases"] == 2041


def test_the_page_has_true_positives_and_what_was_reconstructed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    original = _write(tmp_path / "o.csv", ["a b c d", "b a c d", "c d a b"] * 40 + ["d c b a"], "o")
    control = _write(tmp_path / "c.csv", ["a b d c", "b a d c", "d c a b"] * 40, "c")
    page = tmp_path / "page.md"
    words = [str(original), "--original", str(original), "--control", str(control), *COLUMNS]
    assert execute(["assess", *words, "-o", str(page)]) == 0
    printed = " ".join(capfd.readouterr().out.split())
    for text in (" ".join(page.read_text(encoding="utf-8").split()), printed):
        # 120 cases outside: 1 may pass at 1 %, none at .1 %. All records are at distance 0, and no case outside is.
        nearest = "distance to the nearest record: 100.0% true positives at 1.0% false positives"
        assert f"{nearest}; at 0.1% false positives unknown (too few cases outside)" in text
        assert "traces of 121 cases of the original; 1 of them have a trace of their own" in text
        # d c b a, as the only whole trace that one case alone has.
        assert "the longest released piece that one case alone has: 4 events" in text


def test_a_control_that_was_released_is_noticed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    letters = "abcdefghij"
    rng_traces = [
        [
            " ".join(letters[(start + 3 * number + k * (number % 7 + start)) % 10] for k in range(8))
            for number in range(60)
        ]
        for start in (1, 2)
    ]
    original = _write(tmp_path / "o.csv", rng_traces[0], "o")
    control = _write(tmp_path / "c.csv", rng_traces[1], "c")
    body = _json(capfd, str(control), "--original", str(original), "--control", str(control), *COLUMNS)
    assert any("made from cases of the control" in warning for warning in body["warnings"])  # type: ignore[attr-defined]


def test_names_with_markup_are_text_on_the_page(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    name = "<script>alert(1)</script>"
    original = _write(tmp_path / "o.csv", [f"a {name}", f"{name} a"], "o")
    released = _write(tmp_path / f"r{name.replace('/', '')}.csv", [f"a {name}"], "r")
    page = tmp_path / "page.html"
    assert execute(["assess", str(released), "--original", str(original), *COLUMNS, "-o", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    assert "for the operator and the officer" in text
    assert execute(["assess", str(released), "--original", str(original), *COLUMNS, "-o", str(tmp_path / "p.md")]) == 0
    assert "singling out" in (tmp_path / "p.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["R"], "--original is missing"),
        (["--original", "O"], "name the releases to assess"),
        (["R", "--original", "O", "--mechanism", "tlkc"], "leave out RELEASE and --control"),
        (["R", "--original", "O", "--set", "K=5"], "name it with --mechanism"),
        (["R", "--original", "O", "-o", "page.pdf"], "written as .html or .md"),
        (["R", "--original", "O", "--m", "9"], "1 to 8 items"),
        (["R", "--original", "O", "--knowledge", "all"], "is not one of set, mult, seq, rel"),
        (["FOLDER", "--original", "O"], "no manifest.json"),
        (["R", "--original", "O", "--control", "O"], "are in the original and in the control"),
    ],
)
def test_bad_usage_is_one_line(
    words: list[str], says: str, logs: dict[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    places = {"R": logs["release"], "O": logs["original"], "FOLDER": str(tmp_path)}
    assert execute(["assess", *(places.get(word, word) for word in words), *COLUMNS]) == 2
    error = capfd.readouterr().err
    assert says in error
    assert "Traceback" not in error


def test_a_release_has_column_names_of_its_own(
    logs: dict[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """`--columns` describes the original; a file that `anonymize` wrote has the names of XES."""
    release = str(tmp_path / "released.csv")
    assert execute(["anonymize", logs["original"], *COLUMNS, "-o", release, "--K", "2", "--L", "1"]) == 0
    capfd.readouterr()
    body = _json(capfd, release, "--original", logs["original"], *COLUMNS)
    assert body["assessments"][0]["original_cases"] == 6  # type: ignore[index]
    assert execute(["utility", logs["original"], release, *COLUMNS, "--fitness", "none"]) == 0
    # Where neither names fit, the refusal is about the names that were given.
    assert execute(["utility", logs["original"], release, "--columns", "case=nr", "--fitness", "none"]) == 2
    assert "no column 'nr' (case)" in capfd.readouterr().err
