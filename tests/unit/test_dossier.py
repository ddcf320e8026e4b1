"""`veilstream dossier`: what the document says of a folder, and how it says it."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from stream.commands import execute
from stream.ledger.layout import OperatorLayout
from stream.ledger.view import LedgerView
from stream.operator.dossier import evidence
from stream.operator.history import ledger_view
from tests.dossiers import FACTS, NOISE, replayed, small, write_facts, write_log

PARTS = [f"## {number}. " for number in range(1, 8)]

NOISY = (
    NOISE.replace("TRIGGER", "new_cases = 10")
    + """
[[publication]]
name = "cases"
audience = "AUDIENCE"
window = { new_cases = 10 }
mechanism = { kind = "identity" }
audit = { bk_length = 1, n = [0], risk = false, utility = false }
gate = { min_ka = 2 }
"""
)


def written(capfd: pytest.CaptureFixture[str], *words: str) -> str:
    """The dossier in Markdown."""
    code = execute(["dossier", *words])
    captured = capfd.readouterr()
    assert code == 0, captured.err
    return captured.out


def data(capfd: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """Return the output of `--json`."""
    found: dict[str, Any] = json.loads(written(capfd, *words, "--json"))
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three releases of groups of five."""
    return replayed(tmp_path_factory.mktemp("dossier"), small())


def test_all_seven_parts_come_in_their_order(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = written(capfd, str(folder), "steps")
    places = [text.index(part) for part in PARTS]
    assert places == sorted(places)
    assert text.index("## Read this first") < places[0]


def test_facts_are_printed_and_nobody_is_asked_again(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    facts = write_facts(tmp_path / "dossier.toml", FACTS)
    text = written(capfd, str(folder), "steps", "--facts", str(facts))
    for value in FACTS.values():
        assert value in text
    # The effect of alternatives is nothing that a person knows: part 4 still asks for it.
    assert text.count("Open question: ") == 1


def test_every_fact_that_is_missing_is_a_marked_question(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = written(capfd, str(folder), "steps")
    found = data(capfd, str(folder), "steps")
    assert len(found["open_questions"]) == len(FACTS) + 1
    assert text.count("Open question: ") == len(found["open_questions"])
    assert f"{len(found['open_questions'])} questions are open and marked" in text
    assert found["facts"] == dict.fromkeys(FACTS)


def test_the_dossier_has_the_one_verdict_of_the_report(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    found = data(capfd, str(folder), "steps")
    assert execute(["releases", str(folder), "--json"]) in (0, 3)
    verdict = found["verdict"]
    assert verdict["verdict"] == "LIMITED", "min_fa, min_ca and min_ba are not set"
    text = written(capfd, str(folder), "steps")
    first = text.split("## 1. ")[0]
    assert "! LIMITED" in first
    for word in ("SAFE", "WITHHELD", "DP VOID", "WAITING"):
        assert word not in text


def test_withheld_attempts_are_said_first(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    output = replayed(tmp_path, small(least=15), code=(3,))
    text = written(capfd, str(output), "steps")
    first = text.split("## 1. ")[0]
    assert "1 attempt to release was withheld" in first
    assert "**Withheld**" in text


def test_a_void_promise_is_said_first(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    output = replayed(tmp_path, NOISY.replace('audience = "AUDIENCE"\n', ""))
    text = written(capfd, str(output), "counts")
    first = text.split("## 1. ")[0]
    assert "DP VOID" in first
    assert "The noise protects nobody who also sees cases: exact counts of the same cases go to the same" in first


def test_noise_for_another_audience_names_what_pooling_does(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    output = replayed(tmp_path, NOISY.replace("AUDIENCE", "analysts"))
    text = written(capfd, str(output), "counts")
    assert "DP VOID" not in text
    assert "somebody who also has cases, which shows cases without noise, can subtract" in text
    assert "epsilon 1.5 spent of 2; a release costs 0.5" in text


def test_a_publication_without_a_release_has_no_dossier(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    output = replayed(tmp_path, small(K=40, least=40), code=(3,))
    assert execute(["dossier", str(output), "steps"]) == 3
    assert "a dossier is about releases" in capfd.readouterr().err


@pytest.fixture(scope="module")
def withheld(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A publication with a bound that no group of the log reaches: every attempt was withheld."""
    folder = tmp_path_factory.mktemp("withheld")
    replayed(folder, small(least=31), code=(3,))
    return folder


def test_attempts_that_were_all_withheld_have_a_dossier(withheld: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The terms come from the configuration, the reasons from the ledger; nothing was measured on a release."""
    words = [str(withheld / "out"), "steps", "-c", str(withheld / "clinic.toml")]
    text = written(capfd, *words)
    first, part_1 = text.split("## 1. ")[0], text.split("## 1. ")[1].split("## 2. ")[0]
    assert "WITHHELD" in first
    assert "3 attempts to release were withheld" in first
    assert "No release exists" in first
    assert "no attempt led to a release" in part_1
    assert "finds no case or at least 5 that fit" in part_1
    assert "no release exists, so nothing was measured" in text
    part_5 = text.split("## 5. ")[1].split("## 6. ")[0]
    assert "ka: 9 is below 31; ka: 19 is below 31; ka: 29 is below 31" in part_5
    assert "Manifest" not in part_5
    found = data(capfd, *words)
    assert (found["release"], found["releases"], found["withheld"]) == (None, [], 3)
    assert found["manifest_sha256"] is None


def test_the_terms_of_withheld_attempts_need_their_configuration(
    withheld: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The folder keeps it; a folder of an earlier program may not."""
    assert "finds no case or at least 5 that fit" in written(capfd, str(withheld / "out"), "steps")
    older = tmp_path / "older"
    shutil.copytree(withheld / "out", older)
    OperatorLayout(older).configuration.unlink()
    assert execute(["dossier", str(older), "steps"]) == 2
    assert "no manifest states what was promised; give the configuration with -c FILE" in capfd.readouterr().err
    (tmp_path / "other.toml").write_text(small(least=32))
    assert execute(["dossier", str(withheld / "out"), "steps", "-c", str(tmp_path / "other.toml")]) == 2
    assert "is not the configuration of this folder" in capfd.readouterr().err


def test_the_table_of_alternatives_shows_what_would_have_been_released(
    withheld: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = [str(withheld / "out"), "steps", "-c", str(withheld / "clinic.toml")]
    found = data(capfd, *words, "--original", str(withheld / "clinic.csv"))["alternatives"]
    assert {row["value"]: row["released"] for row in found["rows"] if row["name"] == "K"}[5] == 0, "as it was"
    assert next(row for row in found["rows"] if row["name"] == "kind")["released"] == 3


def test_the_alternatives_of_a_default_replay_need_no_configuration_file(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """No file of such a configuration ever existed, so the folder must have it, with its digest."""
    log = write_log(tmp_path / "clinic.csv")
    output = tmp_path / "out"
    assert execute(["replay", str(log), "-o", str(output), "--final"]) == 0
    capfd.readouterr()
    found = data(capfd, str(output), "--original", str(log))["alternatives"]
    assert {row["value"] for row in found["rows"] if row["name"] == "K"} >= {10, 20}


def test_what_was_spent_is_what_the_ledger_has_now(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The last manifest of `counts` is older than the releases of `more`, which spend epsilon of the same process."""
    second = NOISE.split("[[publication]]")[1].replace('"counts"', '"more"\naudience = "others"')
    second = second.replace("TRIGGER", "new_cases = 10")
    first = NOISE.replace("TRIGGER", "new_cases = 30")
    output = replayed(tmp_path, first + "[[publication]]" + second)
    manifests = sorted(output.glob("public/*/*/manifest.json"))
    charged = sum(json.loads(path.read_text())["budget"]["epsilon"] for path in manifests)
    (stated,) = output.glob("public/counts/*/manifest.json")
    text = written(capfd, str(output), "counts")
    assert f"all publications of the process with noise together: epsilon {charged:g}" in text
    # Negative control: the manifest alone would have said less, or as much if it is the last one of the process.
    more = json.loads(max(output.glob("public/more/*/manifest.json")).read_text())
    assert (
        max(one["budget"]["process"]["spent"]["epsilon"] for one in (more, json.loads(stated.read_text()))) == charged
    )


def test_a_held_release_is_what_the_officer_reads_before_deciding(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    output = replayed(tmp_path, small(more='approval = "required"'), code=(0, 3))
    text = written(capfd, str(output), "steps")
    assert "WAITING" in text.split("## 1. ")[0]
    assert "This dossier is about release 1" in text
    assert "A release is due after 10 new cases" in text, "the folder keeps its configuration"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["steps", "-o", "dossier.pdf"], "print the .html to get a PDF of two pages"),
        (["nothing"], "no publication 'nothing'; it holds steps"),
        (["steps", "--language", "fr"], "no such language"),
        (["steps", "-c", "other.toml"], "is not the configuration of the last release"),
        (["steps", "--assessment", "no.json"], "no assessment; write it with veilstream assess"),
        (["steps", "--assessment", "later.json"], "version 2 of an assessment"),
        (["steps", "--assessment", "alien.json"], "that is not the one of this folder's ledger"),
        (["steps", "--assessment", "file.json"], "assesses no release of this folder"),
        (["steps", "--assessment", "noise.json"], "assesses dp-variants, and the publication has tlkc"),
        (["steps", "--assessment", "larger.json"], "assesses K = 9, and the publication has K = 5"),
    ],
)
def test_bad_input_gets_one_clear_error(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    (tmp_path / "other.toml").write_text(small(K=6))
    (tmp_path / "no.json").write_text("{}")
    (tmp_path / "later.json").write_text('{"version": 2, "releases": [], "assessments": []}')
    alien = {"publication": "steps", "sequence": 1, "manifest_sha256": "0" * 64}
    (tmp_path / "alien.json").write_text(json.dumps({"version": 1, "releases": [alien], "assessments": []}))
    for name, mechanism in (
        ("file", None),
        ("noise", {"kind": "dp-variants", "parameters": {}}),
        ("larger", {"kind": "tlkc", "parameters": {"K": 9}}),
    ):
        body = {"version": 1, "releases": [{"name": name, "mechanism": mechanism}], "assessments": []}
        (tmp_path / f"{name}.json").write_text(json.dumps(body))
    named = [str(tmp_path / word) if word.endswith((".toml", ".json", ".pdf")) else word for word in words]
    assert execute(["dossier", str(folder), *named]) == 2
    error = capfd.readouterr().err
    assert message in error
    assert len(error.strip().splitlines()) == 1


def test_an_assessment_of_the_releases_is_in_part_2(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = write_log(tmp_path / "clinic.csv")
    control = write_log(tmp_path / "control.csv")
    control.write_text(control.read_text().replace("\nc", "\nd"))
    releases = [str(folder / "public" / "steps" / f"release-00000{number}") for number in (2, 3)]
    assert execute(["assess", *releases, "--original", str(log), "--control", str(control), "--json"]) == 0
    assessment = tmp_path / "assessment.json"
    assessment.write_text(capfd.readouterr().out)
    text = written(capfd, str(folder), "steps", "--assessment", str(assessment))
    part_2 = text.split("## 2. ")[1].split("## 3. ")[0]
    assert "attack (" in part_2
    assert ", control " in part_2
    assert "no attack was run" not in part_2
    found = data(capfd, str(folder), "steps", "--assessment", str(assessment))
    assert found["assessments"][0]["releases"] == [2, 3]


def test_the_dossier_promises_no_more_than_the_manifest(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The manifest of tlkc excludes several releases together; the bounds of a gate are not a promise of K."""
    bounds = "min_ka = 5, min_fa = 2, min_ca = 2, min_ba = 2"
    output = replayed(tmp_path, small().replace("min_ka = 5", bounds))
    manifest = json.loads((output / "public" / "steps" / "release-000001" / "manifest.json").read_text())
    assert "several releases together" in manifest["promise"]["not_guaranteed"]
    text = written(capfd, str(output), "steps")
    assert "at least 5 that fit, in each release by itself." in text
    assert "when any two are compared" not in text
    assert "nothing beyond each release; the gate checks for 2 possible cases or more (FA, CA, BA)" in text
    assert "comparing releases is checked by the gate, and not promised" in text
    assert "nothing: C is 1, so all cases that fit may share a sensitive value" in text


def test_fewer_cases_than_k_after_comparing_releases_are_what_remains(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Groups of eight hold in each release by itself; somebody who compares two releases is left with fewer."""
    early = [(f"c{case}", "a") for case in range(10)]
    late = [(f"d{case}", "b" if case < 5 else "a") for case in range(10)]
    lines = ["case:concept:name,concept:name,time:timestamp"]
    for day, (case, step) in enumerate(early + late):
        lines.append(f"{case},{step},2025-01-{1 + day:02d}T00:00:00Z")
    log = tmp_path / "clinic.csv"
    log.write_text("\n".join(lines) + "\n", encoding="utf-8")
    output = replayed(tmp_path, small(K=8, least=1), log)
    text = written(capfd, str(output), "steps")
    least = re.search(r"FA (\w+), CA (\w+), BA (\w+)", text)
    assert least is not None
    fewest = min(int(value) for value in least.groups() if value.isdigit())
    assert fewest < 8
    assert f"is left with {fewest} cases in the worst case, fewer than 8" in text


def test_an_audit_of_other_knowledge_than_the_promise_is_marked(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert "the audit assumes" not in written(capfd, str(folder), "steps")
    output = replayed(tmp_path, small(least=1).replace("bk_length = 1", "bk_length = 2"))
    assert "the audit assumes 2 known items, and the promise 1" in written(capfd, str(output), "steps")


def test_releases_by_lcs_start_have_a_dossier(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The kind has no parameter for the knowledge: the order of items always counts as known."""
    mechanism = 'kind = "tlkc", knowledge = "set", attribute = "ac"'
    output = replayed(tmp_path, small().replace(mechanism, 'kind = "lcs-start", attribute = "ac"'))
    text = written(capfd, str(output), "steps")
    assert "somebody who knows up to 1 steps of a person and their order finds no case or at least 5" in text


def test_a_moment_that_depends_on_the_data_is_no_closed_side_channel(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    output = replayed(tmp_path, NOISE.replace("TRIGGER", "new_cases = 10"))
    text = written(capfd, str(output), "counts")
    assert "moments of release: not covered, part 3" in text
    assert "do not depend on the data" not in text
    assert "all so far together cost epsilon 1.5 (delta 3e\N{MINUS SIGN}06)" in text


@pytest.mark.parametrize(
    ("period", "words"),
    [pytest.param("1d", "elke dag", marks=pytest.mark.slow), ("36h", "elke 36 uur"), ("14d", "elke 14 dagen")],
)
def test_a_period_in_dutch_is_the_period(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], period: str, words: str
) -> None:
    """`Om de dag` would be every other day."""
    output = replayed(tmp_path, small().replace("{ new_cases = 10 }", f'{{ every = "{period}" }}'))
    text = written(capfd, str(output), "steps", "-c", str(tmp_path / "clinic.toml"), "--language", "nl")
    assert f"Een vrijgave volgt {words}." in text


@pytest.mark.parametrize(("result", "is_first"), [("could not see", True), ("not run", True), ("not seen", False)])
def test_an_attack_without_power_is_said_first(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], result: str, is_first: bool
) -> None:
    manifest = (folder / "public" / "steps" / "release-000003" / "manifest.json").read_bytes()
    digest = hashlib.sha256(manifest).hexdigest()
    measure = {"attack": "membership", "how": "x", "result": result, "rate": 0.5, "control": 0.5, "risk": 0.0}
    measure |= {"low": -0.9, "high": 0.9, "power": 0.9, "control_targets": 3}
    entry = {"attacked": "release", "control_cases": 3, "profiles": [{"profile": "promised", "knows": "x"}]}
    entry["profiles"][0]["measures"] = [measure]  # type: ignore[index]
    release = {"publication": "steps", "sequence": 3, "manifest_sha256": digest}
    path = tmp_path / "assessment.json"
    path.write_text(json.dumps({"version": 1, "releases": [release], "assessments": [entry]}))
    first = written(capfd, str(folder), "steps", "--assessment", str(path)).split("## 1. ")[0]
    assert ("so they show nothing: presence in the data" in first) is is_first


def test_a_new_page_is_for_the_operator_only(folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "dossier.html"
    assert execute(["dossier", str(folder), "steps", "-o", str(page)]) == 0
    assert page.stat().st_mode & 0o077 == 0
    assert "<mark>Open question: " in page.read_text(encoding="utf-8")


WINDOWED = (
    NOISE.replace("TRIGGER", 'every = "7d", time = "wall"')
    .replace("public_cut = true, max_epsilon = 2.0", "max_epsilon = 20.0")
    .replace("[[publication]]", '[[publication]]\nstart = "2025-01-01T00:00:00Z"')
)
"""Weekly releases with noise from a public moment on."""


@pytest.mark.parametrize(
    ("words", "more", "answer"),
    [
        (
            ["--until", "2025-02-05T00:00:00Z"],
            "",
            "moments of release do not depend on the data",
        ),
        (["--until", "2025-02-05T00:00:00Z", "--final"], "", "moments of release do not depend on the data"),
        ([], "", "the number of releases depends on the data, part 3"),
        (["--final"], "", "the number of releases depends on the data, and so does the end of release 4 (trigger"),
        (["--until", "2025-02-05T00:00:00Z"], 'approval = "required"', "moments of release: not covered, part 3"),
    ],
    ids=["declared end", "declared end and a final release", "last event", "final release", "a person decides"],
)
def test_moments_are_independent_of_the_data_only_if_all_releases_are(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], words: list[str], more: str, answer: str
) -> None:
    """A replay without a declared end stops at the last event, so a person can decide how many releases it has."""
    (tmp_path / "clinic.toml").write_text(WINDOWED + more + "\n", encoding="utf-8")
    log = write_log(tmp_path / "clinic.csv")
    output = tmp_path / "out"
    code = execute(["replay", str(log), "-c", str(tmp_path / "clinic.toml"), "-o", str(output), *words])
    assert code in (0, 3)
    text = written(capfd, str(output), "counts")
    part_6 = text.split("## 6. ")[1].split("## 7. ")[0]
    assert answer in part_6
    assert ("do not depend on the data" in part_6) == (words[:1] == ["--until"] and not more)
    part_3 = text.split("## 3. ")[1].split("## 4. ")[0]
    assert ("ended with the last event of the log" in part_3) == ("--until" not in words)


def test_releases_of_a_configuration_that_covers_no_moments_are_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The manifests of a series differ after a change of the configuration: the last one does not answer for all."""
    (tmp_path / "clinic.toml").write_text(WINDOWED, encoding="utf-8")
    log = write_log(tmp_path / "clinic.csv")
    output = tmp_path / "out"
    words = [
        "replay",
        str(log),
        "-c",
        str(tmp_path / "clinic.toml"),
        "-o",
        str(output),
        "--until",
        "2025-02-05T00:00:00Z",
    ]
    assert execute(words) == 0
    audit = OperatorLayout(output).audit("counts", 2)
    document = json.loads(audit.read_bytes())
    document["promise"]["public_cut"] = "the moment of each release is treated as public and is not protected"
    document["config_digest"] = "another"
    audit.write_text(json.dumps(document))
    text = written(capfd, str(output), "counts")
    assert "moments of releases 2: not covered; those of the others do not depend on the data" in text


def test_a_number_of_several_releases_has_its_n_and_whether_it_bounds(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """An n below the events that were removed gives small numbers that hold for nobody; no number has a bound here."""
    output = replayed(tmp_path, small())
    path = OperatorLayout(output).audit("steps", 3)
    document = json.loads(path.read_bytes())
    numbers = dict.fromkeys(("ca", "ba", "bf", "bc"), 9)
    rows = [{"n": 0, "fa": 1, **numbers, "assumption": "violated"}, {"n": 1, "fa": 7, **numbers}]
    document["series"] = {"status": "ok", "reason": "", "worst": 1, "releases": [1, 2, 3], "results": rows}
    path.write_text(json.dumps(document))
    part_2 = written(capfd, str(output), "steps").split("## 2. ")[1].split("## 3. ")[0]
    combined = "attacks that combine releases 1, 2 and 3, with n removed events of a case assumed: "
    assert f"{combined}1 at n = 0 (violated, so it bounds nothing), 7 at n = 1 (no bound set)" in part_2
    assert "all releases together: " not in part_2


@pytest.mark.parametrize("kind", ["dp-variants", "dp-model"])
def test_empty_releases_are_named_by_replay_dossier_and_statement(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], kind: str
) -> None:
    """Each case has a step of its own: none reaches the threshold, and five releases spend epsilon on nothing."""
    log = tmp_path / "clinic.csv"
    lines = ["case:concept:name,concept:name,time:timestamp"]
    for case in range(30):
        lines += [f"c{case},step{case},2025-01-{1 + case % 28:02d}T00:00:00Z"]
    log.write_text("\n".join(lines) + "\n", encoding="utf-8")
    # With a delta of 1e-6 one of the hundred counts of a single case would leave once in ten thousand runs.
    configuration = WINDOWED.replace("dp-variants", kind).replace("delta_dp = 1e-6", "delta_dp = 1e-12")
    (tmp_path / "clinic.toml").write_text(configuration, encoding="utf-8")
    output = tmp_path / "out"
    words = [
        "replay",
        str(log),
        "-c",
        str(tmp_path / "clinic.toml"),
        "-o",
        str(output),
        "--until",
        "2025-02-05T00:00:00Z",
    ]
    assert execute(words) == 0
    shown = " ".join(capfd.readouterr().out.split())
    assert "warning: 5 releases of counts are empty (1, 2, 3, 4, 5): nothing in the log exceeds the noise" in shown
    first = written(capfd, str(output), "counts").split("## 1. ")[0]
    assert "These releases are empty: 1 to 5." in first
    assert execute(["statement", str(output), "counts"]) == 0
    statement = " ".join(capfd.readouterr().out.split())
    assert "Empty releases: 1 to 5. Nothing in the data exceeds the noise." in statement


@pytest.mark.parametrize(
    ("language", "promised"),
    [
        ("en", "each alone and together with the one before it,"),
        ("de", "jede für sich und zusammen mit der vorangehenden,"),
        ("nl", "elk afzonderlijk en samen met de voorgaande,"),
    ],
)
def test_pairs_that_were_not_compared_are_not_promised(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], language: str, promised: str
) -> None:
    """`against = "last"` compares each release with the one before it."""
    configuration = small().replace("bk_length = ", 'against = "last", bk_length = ')
    small_series = configuration.replace("min_ka = 5", "min_ka = 5, min_fa = 5, min_ca = 5, min_ba = 5")
    assert small_series != configuration != small()
    output = replayed(tmp_path, small_series)
    shown = written(capfd, str(output), "steps", "--language", language)
    assert "SAFE" in shown
    assert promised in shown
    assert "3 releases, each alone and together with the one before it (other pairs were not compared)" in shown


@pytest.mark.parametrize(("time", "is_open"), [("event", True), ("wall", False)])
def test_moments_of_a_daemon_with_windows_of_event_time_are_not_covered(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, time: str, is_open: bool
) -> None:
    """The watermark closes such a window, and a person's event can move it."""
    (tmp_path / "clinic.toml").write_text(WINDOWED.replace("wall", time), encoding="utf-8")
    log = write_log(tmp_path / "clinic.csv")
    output = tmp_path / "out"
    end = "2025-02-05T00:00:00Z"
    assert execute(["replay", str(log), "-c", str(tmp_path / "clinic.toml"), "-o", str(output), "--until", end]) == 0
    assert "moments of release do not depend on the data" in written(capfd, str(output), "counts")
    # Only the claim in the ledger distinguishes the folder of a replay from that of a daemon.
    monkeypatch.setattr(evidence, "current_ledger_view", _without_claim)
    text = written(capfd, str(output), "counts", "-c", str(tmp_path / "clinic.toml"))
    assert ("moments of release: not covered, part 3" in text) == is_open
    assert ("one event can move a moment of release" in text) == is_open


def _without_claim(output: Path) -> LedgerView:
    view = ledger_view(output)
    view.claim = None
    return view


def test_a_process_map_has_no_cases(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The dossier of a `dp-model` described the columns of a log, and its cases."""
    declared = 'kind = "dp-model", activities = ["a", "b", "c"],'
    configuration = NOISE.replace("TRIGGER", "new_cases = 30").replace('kind = "dp-variants",', declared)
    output = replayed(tmp_path, configuration)
    part_1 = written(capfd, str(output), "counts").split("## 1. ")[1].split("## 2. ")[0]
    assert "A release shows a process map: how often each step follows another, with intervals, and a model." in part_1
    assert "Case ids" not in part_1
    assert "None of its cases" not in part_1
    first = written(capfd, str(output), "counts").split("## 1. ")[0]
    assert "veilstream assess attacks logs, and a map has no cases" in first
    assert "audit-epsilon --mechanism dp-model" in first


def test_an_officer_who_may_only_read_the_folder_gets_the_dossier(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The copy for the console cannot be kept: a file in the place of its folder acts as a read-only disk."""
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    shutil.rmtree(copy / "operator" / "for_officers", ignore_errors=True)
    (copy / "operator" / "for_officers").write_text("")
    page = tmp_path / "dossier.html"
    assert execute(["dossier", str(copy), "steps", "-o", str(page)]) == 0
    assert page.stat().st_size > 1000
    error = capfd.readouterr().err
    assert "cannot be written" in error
    assert "the console and the catalogue do not have this dossier" in error


ONCE = (
    small()
    .replace('kind = "tlkc", knowledge = "set", attribute = "ac"', 'kind = "tlkc-cohorts"')
    .replace("[[publication]]", 'completion = { end_activities = ["c"] }\n[[publication]]')
    .replace("window", 'cases = "completed"\nwindow')
)
"""The small log as cohorts, each case in one release."""


def test_a_series_that_shows_each_case_once_has_nothing_to_intersect(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """No group of one release is part of another, and no attack compares three of them. An event that came to a case
    after its cut is lost, and counted."""
    log = write_log(tmp_path / "clinic.csv")
    with log.open("a", encoding="utf-8") as file:
        file.write('c0,"b",2025-01-20T00:00:00Z\n')
    text = written(capfd, str(replayed(tmp_path, ONCE, log)), "steps")
    assert "no case is in two releases, so nobody excludes a case by comparing them" in text
    assert "every release keeps it, and no case is in two of them" not in text, "C is 1: nothing is promised"
    assert "1 event is in no release" in text
    cautions = ("can be intersected", "attacks on three releases or more", "still has at least")
    for caution in cautions:
        assert caution not in text
    cumulative = written(capfd, str(folder), "steps")
    assert "can be intersected" in cumulative
    assert "in no release, since" not in cumulative
