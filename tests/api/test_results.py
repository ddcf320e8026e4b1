"""Results show themselves as DataFrame, text and HTML, with their promises; refusals of options name the remedy."""

from __future__ import annotations

import gc
from typing import Any

import pandas as pd
import pytest

import veilstream as vs
from models.utility.discovery import quiet_pm4py
from stream.release.mechanisms import kinds

HOSTILE = "<img src=x onerror=alert(1)> & \x1b[31mTriage"


def named_by_markup(frame: pd.DataFrame) -> pd.DataFrame:
    """The log with an activity that a page or a terminal would execute."""
    return frame.assign(**{"concept:name": frame["concept:name"].replace("Triage", HOSTILE)})


def test_markup_in_names_of_activities_is_shown_as_text(small: pd.DataFrame) -> None:
    """In HTML it is escaped; neither HTML nor text holds a control character."""
    log = named_by_markup(small)
    result = vs.attack(log, log, n=0, bk=[[HOSTILE]])
    page, text = result._repr_html_(), result.summary()
    assert "&lt;img src=x onerror=alert(1)&gt; &amp; \ufffd[31mTriage" in page
    assert "<img" not in page
    assert "\x1b" not in page + text
    assert HOSTILE.replace("\x1b", "\ufffd") in text
    assert HOSTILE not in repr(result)


def test_markup_in_a_promise_or_a_note_is_shown_as_text(small: pd.DataFrame) -> None:
    """An attribute's name is part of the promise."""
    log = small.rename(columns={"case:diagnosis": "case:<b>diagnosis"})
    release = vs.anonymize(log, sensitive="<b>diagnosis", release_attributes="<b>diagnosis", K=5, L=2, C=1)
    assert "<b>" in release.promise["not_guaranteed"]
    assert "<b>" not in release._repr_html_()
    assert "&lt;b&gt;diagnosis" in release._repr_html_()


def test_a_release_carries_its_promise(small: pd.DataFrame) -> None:
    """The sentences of the document are in text and HTML: guaranteed, to whom, not guaranteed."""
    release = vs.anonymize(small, K=5, L=2, C=1)
    assert release.promise == release.document["promise"]
    assert {"guaranteed", "to_whom", "against_whom", "not_guaranteed"} <= set(release.promise)
    for sentence in filter(None, release.promise.values()):
        assert sentence in release.summary()
    assert "not guaranteed" in release._repr_html_()


def test_a_series_carries_verdict_and_promises(small: pd.DataFrame) -> None:
    """The promise is the one of the manifests; a temporary folder goes with the result."""
    series = vs.replay(small, sensitive="diagnosis")
    folder = series.folder
    assert (folder / "public" / "research").is_dir()
    first = series.releases[0]
    assert first.promise["guaranteed"] in series.summary()
    for verdict in series.verdicts:
        assert verdict.line() in series.summary()
    rows = series.to_dataframe()
    assert rows["KA"].dtype == "Int64"
    assert rows["release"].tolist() == [release.document["sequence"] for release in series.releases]
    assert len(first.log) == first.document["counts"]["events"]
    del series, first
    gc.collect()
    assert not folder.exists()


def test_a_series_without_a_release_is_reported(small: pd.DataFrame) -> None:
    """Too few cases for a first release are not an error."""
    few = small[small["case:concept:name"].isin(sorted(small["case:concept:name"].unique())[:10])]
    series = vs.replay(few)
    assert (series.releases, series.exit_code) == ([], 3)
    assert list(series.to_dataframe().columns)[:2] == ["publication", "release"]
    assert "[" in series.summary()


def test_publications_are_mappings(small: pd.DataFrame) -> None:
    """No TOML: the tables of a configuration as Python has them."""
    publication = {
        "name": "weekly",
        "window": {"every": "28d"},
        "mechanism": {"kind": "tlkc-cohorts", "K": 5, "L": 2, "C": 1, "suppression": "local"},
        "gate": {"min_ka": 5, "min_fa": 5, "min_ca": 5, "min_ba": 5, "max_minimality": 0},
    }
    series = vs.replay(small, publication=publication)
    assert {release.document["publication"] for release in series.releases} == {"weekly"}
    with pytest.raises(vs.InputError, match="publication 'weekly': windw: unknown key"):
        vs.replay(small, publication={**publication, "windw": {}})


@pytest.mark.parametrize("kind", ["dp-log", "dp-variants", "dp-synthetic"])
def test_synthesize(small: pd.DataFrame, kind: Any) -> None:
    """Kinds with noise say where their promise begins, and show no count of the source's loss."""
    release = vs.synthesize(small, mechanism=kind, epsilon=5, delta_dp=1e-3)
    assert "begins at the log as it was read" in release.promise["intake"]
    assert "loss" not in release.document
    assert set(release.log.columns) >= {"case:concept:name", "concept:name", "time:timestamp"}


def test_a_release_can_be_mined(frame: pd.DataFrame) -> None:
    """pm4py discovers graph and model, of the frame and of its own EventLog."""
    release = vs.anonymize(frame, K=20, L=2, C=1)
    with quiet_pm4py() as pm4py:
        graph, starts, _ = pm4py.discover_dfg(release.log)
        net, _, _ = pm4py.discover_petri_net_inductive(release.log)
        of_log, _, _ = pm4py.discover_dfg(pm4py.convert_to_event_log(release.log))
    assert sum(starts.values()) == release.log["case:concept:name"].nunique()
    assert graph == of_log
    assert {place.label for place in net.transitions if place.label} <= set(frame["concept:name"])


REFUSED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "unknown mechanism": ({"mechanism": "k-anonymity"}, ["'k-anonymity' is not one of", *kinds()]),
    "misspelt parameter": ({"k": 5}, ["k is not an option of mechanism='tlkc'", "it has C, K, L"]),
    "missing parameter": ({"mechanism": "dp-log", "epsilon": 1}, ["mechanism dp-log needs delta_dp"]),
    "bad value": ({"K": 0}, ["K: Input should be greater than or equal to 1"]),
    "unknown attribute": ({"sensitive": "Diagnosis"}, ["'Diagnosis' is not in the log; it has age, diagnosis"]),
    "attributes that do not leave": (
        {"mechanism": "dp-variants", "epsilon": 1, "delta_dp": 1e-6, "release_attributes": "age"},
        ["release_attributes: dp-variants releases no attributes of cases"],
    ),
    "columns as text": ({"columns": "case=Patient"}, ["columns: give a mapping"]),
    "violations of another kind": (
        {"mechanism": "pretsa", "K": 5, "list_violations": True},
        ["list_violations is for mechanism tlkc"],
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_options_that_cannot_be(small: pd.DataFrame, name: str) -> None:
    """The error names what is allowed, in the words of Python."""
    options, words = REFUSED[name]
    with pytest.raises(vs.InputError) as refused:
        vs.anonymize(small, **options)
    for word in words:
        assert word in str(refused.value)
    assert "--" not in str(refused.value)


def test_too_few_cases_are_counted(small: pd.DataFrame) -> None:
    """No suppression can make more cases than there are."""
    with pytest.raises(vs.InputError, match="the log has 300 cases"):
        vs.anonymize(small, K=301)


WITHOUT_NOISE = sorted(kind for kind, mechanism in kinds().items() if mechanism.reads_data_in_gate)


@pytest.mark.parametrize("kind", WITHOUT_NOISE)
def test_every_kind_without_noise(small: pd.DataFrame, kind: str) -> None:
    """Each kind of the command is one of the function, and leaves no extra column."""
    parameters: dict[str, Any] = {} if kind == "identity" else {"K": 5}
    release = vs.anonymize(small.assign(extra="x"), mechanism=kind, **parameters)
    assert set(release.log.columns) == {"case:concept:name", "concept:name", "time:timestamp"}


def test_a_figure_that_was_not_measured_is_a_dash(small: pd.DataFrame) -> None:
    """Also in a column without any figure, which pandas would show as None."""
    without_attributes = small[["case:concept:name", "concept:name", "time:timestamp"]]
    result = vs.risk(without_attributes, projection="A", points=[1])
    assert result.to_dataframe()["attributes_alone"].isna().all()
    assert "None" not in result.summary()
    assert "None" not in result._repr_html_()
