"""The verdict: one word and one sentence for what the releases of a publication are together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stream.commands import execute
from stream.release.verdict import verdicts

ROOT = Path(__file__).resolve().parent.parent.parent
ALL = {"min_ka": 20.0, "min_fa": 20.0, "min_ca": 20.0, "min_ba": 20.0}


def audit(number: int, bounds: dict[str, float], ba: int | None = None, **more: Any) -> dict[str, Any]:
    """An audit with KA 25 and, against release 1, FA = CA = 30 and the given BA."""
    pairs = [{"earlier": 1, "fa": 30, "ca": 30, "ba": ba}] if number > 1 else []
    anonymity = {"status": "ok", "reason": "", "ka": 25, "true_linker": pairs, "results": []}
    base = {"sequence": number, "bounds": bounds, "budget": None, "anonymity": anonymity}
    return {**base, "gate": {"decision": "passed", "reasons": []}, **more}


def budget(limit: float | None) -> dict[str, Any]:
    body = {"epsilon": 0.5, "delta": 1e-6, "spent": {"epsilon": 1.0, "delta": 2e-6}, "limit": limit}
    return {"sequence": 1, "budget": body, "bounds": {}, "gate": {"decision": "passed", "reasons": []}}


def test_safe_where_every_bound_of_the_series_was_asked() -> None:
    """The smallest number is in the sentence, with its release and the earlier one."""
    (found,) = verdicts({"p": [audit(1, ALL), audit(2, ALL, 21)]}, {})
    assert (found.verdict, found.not_gated) == ("SAFE", ())
    assert "smallest: BA = 21 at release 2 against release 1" in found.sentence


def test_limited_where_a_bound_is_missing_says_which_and_the_number() -> None:
    """One release that was not gated on BA is enough."""
    lacking = {key: value for key, value in ALL.items() if key != "min_ba"}
    (found,) = verdicts({"p": [audit(1, ALL), audit(2, lacking, 4)]}, {})
    assert (found.verdict, found.not_gated) == ("LIMITED", ("BA",))
    assert "BA = 4 at release 2 against release 1" in found.sentence


def test_limited_where_a_release_left_in_spite_of_its_gate() -> None:
    """`on_violation = "warn"` is never safe."""
    warned = {"gate": {"decision": "warned", "reasons": ["BA: 4 is below 20"]}}
    (found,) = verdicts({"p": [audit(1, ALL), audit(2, ALL, 4, **warned)]}, {})
    assert found.verdict == "LIMITED"
    assert "in spite of: BA: 4 is below 20" in found.sentence


def test_limited_where_the_audit_does_not_apply() -> None:
    """A value that was not measured is not safe, and the reason appears in the verdict."""
    silent = {"anonymity": {"status": "not_applicable", "reason": "it relabels events"}}
    (found,) = verdicts({"p": [audit(1, ALL, **silent)]}, {})
    assert found.verdict == "LIMITED"
    assert "it relabels events" in found.sentence


def test_withheld_where_nothing_left_says_why() -> None:
    """The reasons of the last attempt."""
    (found,) = verdicts({}, {"p": [["first"], ["C = 0.5 cannot hold"]]})
    assert (found.verdict, found.released, found.withheld) == ("WITHHELD", 0, 2)
    assert "C = 0.5 cannot hold" in found.sentence


@pytest.mark.parametrize(("limit", "word"), [(2.0, "SAFE"), (None, "LIMITED")])
def test_a_dp_publication_alone(limit: float | None, word: str) -> None:
    """Safe with a limit; without one its loss grows."""
    (found,) = verdicts({"p": [budget(limit)]}, {})
    assert found.verdict == word


def test_a_dp_claim_is_void_with_another_publication_of_the_same_cases() -> None:
    """And the other one has a verdict of its own."""
    void, other = verdicts({"dp": [budget(2.0)], "plain": [audit(1, ALL)]}, {})
    assert (void.verdict, void.void_by) == ("DP VOID", ("plain",))
    assert void.line().startswith("[x] DP VOID BY plain: dp: ")
    assert other.verdict == "SAFE"


def test_replay_and_list_begin_with_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first line of both names the word, and their JSON holds the same verdicts."""
    sample, config = ROOT / "examples" / "hospital.xes.gz", tmp_path / "c.toml"
    config.write_text('[[publication]]\nname = "p"\nwindow = { new_cases = 1000 }\nmechanism = { kind = "tlkc" }\n')
    out = tmp_path / "out"
    assert execute(["replay", str(sample), "-c", str(config), "-o", str(out), "--json"]) == 0
    replayed = json.loads(capsys.readouterr().out)["verdicts"]
    assert execute(["releases", str(out), "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["verdicts"]
    assert replayed == listed
    assert [(one["publication"], one["verdict"]) for one in listed] == [("p", "LIMITED")]
    assert execute(["releases", str(out)]) == 0
    assert capsys.readouterr().out.startswith("[!] LIMITED: p: no bound was set on KA, FA, CA, BA")


def local(number: int, *below: int | None, **bounds: float) -> dict[str, Any]:
    """An audit of cohorts by local suppression: sets of items below K in each, None if nothing was measured."""
    cohorts = [
        {"cohort": place, **({} if one is None else {"minimality_below_k": one})} for place, one in enumerate(below)
    ]
    kind = {"kind": "tlkc-cohorts", "parameters": {"suppression": "local"}}
    return audit(number, {**ALL, **bounds}, mechanism=kind, cohorts=cohorts)


def test_safe_needs_a_bound_on_what_the_rules_of_local_suppression_reveal() -> None:
    """The rules are public, so every recipient knows them. The worst of all cohorts counts, not the newest one."""
    (found,) = verdicts({"p": [local(1, 3), local(2, 3, 13, 4)]}, {})
    assert (found.verdict, found.not_gated) == ("LIMITED", ())
    assert "only against somebody who does not know the public rules of suppression" in found.sentence
    assert found.minimality is not None
    assert (found.minimality.worst, found.minimality.groups, found.minimality.bound) == (13, 3, None)
    assert found.rules is not None
    assert "can narrow a person down: up to 13 sets of items" in found.rules
    assert found.as_json()["minimality"]["worst"] == 13
    (found,) = verdicts({"p": [local(1, 0, max_minimality=0), local(2, 0, 0, max_minimality=0)]}, {})
    assert found.verdict == "SAFE"
    assert found.rules is not None
    assert found.rules.startswith("Even a reader of the program's source cannot narrow a person down")


def test_no_set_by_chance_is_no_bound() -> None:
    """If no audit requested it, the next release may have one."""
    (found,) = verdicts({"p": [local(1, 0)]}, {})
    assert found.verdict == "LIMITED"
    assert "no bound was set on what the public rules of suppression reveal (gate.max_minimality)" in found.sentence


def test_a_bound_that_allows_some_sets_and_a_cohort_that_was_not_measured_are_limits() -> None:
    """`max_minimality` of every release; cohorts of an earlier program have no figure, and 0 is no excuse for them."""
    (found,) = verdicts({"p": [local(1, None, max_minimality=5), local(2, None, 4, max_minimality=5)]}, {})
    assert (found.verdict, "up to 4 sets" in str(found.rules)) == ("LIMITED", True)
    assert "(gate.max_minimality: bound 5; 1 of 2 groups were not measured)" in str(found.rules)
    (found,) = verdicts({"p": [local(1, None, 0, max_minimality=0)]}, {})
    assert found.verdict == "LIMITED"
    assert str(found.rules).startswith("In the measured releases, no set")
    plain = {"kind": "tlkc", "parameters": {"suppression": "local", "K": 20}}
    each = [audit(n, ALL, mechanism=plain, minimality={"below_k": n}) for n in (1, 2)]
    (found,) = verdicts({"p": each}, {})
    assert found.minimality is not None
    assert (found.minimality.worst, found.minimality.groups) == (2, 2)
    assert "leave fewer than 20 possible cases" in str(found.rules)


def test_a_repair_by_events_has_public_rules_that_nothing_measures() -> None:
    """Also where a later release needed none."""
    kind = {"kind": "tlkc", "parameters": {"suppression": "exact", "K": 20}}
    repaired = {**kind, "repair": {"by": "events"}}
    (found,) = verdicts({"p": [audit(1, ALL, mechanism=repaired), audit(2, ALL, mechanism=kind)]}, {})
    assert found.verdict == "LIMITED"
    assert "was not measured" in str(found.rules)
    whole = {**kind, "repair": {"by": "items"}}
    (found,) = verdicts({"p": [audit(1, ALL, mechanism=whole)]}, {})
    assert (found.verdict, found.rules) == ("SAFE", None)


def test_nothing_out_yet_says_who_or_what_it_waits_for() -> None:
    """A person, more cases, or nothing at all; what was refused is withheld, and the end of a log ends all waiting."""
    few = ["cases: not enough yet (9 completed cases wait)"]
    blocked = ["held: release 1 waits for a decision (veilstream approve or reject p 1)"]
    for word, withheld, held, ended in (
        ("WAITING", [few], 0, ()),
        ("NOTHING RELEASED", [few], 0, ("p",)),
        ("WAITING", [blocked], 1, ()),
        ("WAITING", [["ka: 3 is below 20"]], 1, ()),
        ("WITHHELD", [["held: rejected by Ann: no"]], 0, ()),
        ("WITHHELD", [few, ["ka: 3 is below 20"]], 0, ()),
        ("NOTHING RELEASED", [], 0, ()),
    ):
        (found,) = verdicts({"p": []}, {"p": withheld}, {"p": held}, ended)
        assert (found.verdict, found.as_json()["exit_code"]) == (word, 3)
    assert [one.verdict for one in verdicts({}, {})] == ["NOTHING RELEASED"]


def test_other_suppression_has_no_such_rules() -> None:
    """Whole items go everywhere: nothing is said."""
    exact = {"kind": "tlkc", "parameters": {"suppression": "exact"}}
    (found,) = verdicts({"p": [audit(1, ALL, mechanism=exact)]}, {})
    assert found.minimality is None
    assert "rules" not in found.sentence


@pytest.mark.parametrize(
    ("releases", "looks_back", "subject"),
    [
        (1, None, "1 release"),
        (2, None, "2 releases, each alone and both together"),
        (3, None, "3 releases, each alone and any two of them together"),
        (3, 2, "3 releases, each alone and any two of them together"),
        (3, 1, "3 releases, each alone and together with the one before it (other pairs were not compared)"),
        (5, 2, "5 releases, each alone and together with any of the 2 before it (other pairs were not compared)"),
        (2, 0, "2 releases, each alone (no two of them were compared)"),
    ],
)
def test_safe_names_the_pairs_that_were_compared(releases: int, looks_back: int | None, subject: str) -> None:
    """FA, CA and BA compare two releases, and `against` may leave out pairs: the sentence promises no others."""
    audits = []
    for number in range(1, releases + 1):
        first = 1 if looks_back is None else max(1, number - looks_back)
        pairs = [{"earlier": earlier, "fa": 30, "ca": 30, "ba": 21} for earlier in range(first, number)]
        anonymity = {"status": "ok", "reason": "", "ka": 25, "true_linker": pairs, "results": []}
        audits.append(audit(number, ALL, anonymity=anonymity))
    (found,) = verdicts({"p": audits}, {})
    assert found.verdict == "SAFE"
    assert found.sentence.startswith(f"{subject}: at least 20 cases match (or none)")


@pytest.mark.parametrize(
    ("looks_back", "subject"),
    [
        (None, "3 releases, each alone and any two of them together"),
        (
            1,
            "3 releases, each alone and together with the one of its audience before it (other pairs were not "
            "compared)",
        ),
        (
            3,
            "3 releases, each alone and together with any of the 3 of its audience before it (other pairs were not "
            "compared)",
        ),
    ],
)
def test_pairs_of_an_audience_are_compared_too(looks_back: int | None, subject: str) -> None:
    """Two publications release in turn: `against = "last"` compares each release with one of the other publication.

    The verdict stated that no two releases were compared.
    """
    order = [(name, number) for number in (1, 2, 3) for name in ("p", "q")]
    audits: dict[str, list[dict[str, Any]]] = {"p": [], "q": []}
    for place, (name, number) in enumerate(order):
        first = 0 if looks_back is None else max(0, place - looks_back)
        rows = []
        for other, earlier in order[first:place]:
            row = {"earlier": earlier, "fa": 30, "ca": 30, "ba": 21}
            rows.append(row if other == name else {**row, "publication": other})
        anonymity = {"status": "ok", "reason": "", "ka": 25, "true_linker": rows, "results": []}
        audits[name].append(audit(number, ALL, anonymity=anonymity))
    for found in verdicts(audits, {}):
        assert found.verdict == "SAFE"
        assert found.sentence.startswith(f"{subject}: at least 20 cases match (or none)")


def test_a_limited_verdict_is_followed_by_no_promise() -> None:
    """BA = 4, and below it a sentence that nobody can be narrowed down: it is about the rules of suppression alone."""
    without_ba = {name: bound for name, bound in ALL.items() if name != "min_ba"}
    release = audit(2, without_ba, 4, mechanism=local(2)["mechanism"], cohorts=local(2, 0)["cohorts"])
    (found,) = verdicts({"p": [local(1, 0), release]}, {})
    assert found.verdict == "LIMITED"
    assert "cannot narrow a person down" not in str(found.rules)
    assert str(found.rules).endswith("The limit above stays.")


def test_a_limited_sentence_begins_with_its_limit() -> None:
    """A sentence that begins with a promise reads as one, and a qualification at its end is passed over."""
    of_releases = {
        "no limit is set": [budget(None)],
        "only against somebody who does not know the public rules": [local(1, 13, max_minimality=20)],
        "no bound was set on what the public rules of suppression reveal": [local(1, 0)],
        "1 of 2 audits are gone or damaged": [budget(2.0), {}],
    }
    for begin, releases in of_releases.items():
        (found,) = verdicts({"p": releases}, {})
        assert (found.verdict, found.sentence[: len(begin)]) == ("LIMITED", begin)
        # The promise is still stated, behind it.
        assert "differentially private" in found.sentence or "at least 20 cases match" in found.sentence
