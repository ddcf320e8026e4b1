"""`veilstream catalogue`: the record is valid by the published shapes, and says what the manifests say."""

from __future__ import annotations

import json
import shutil
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from connectors import read_log, write_log
from stream.commands import execute
from tests.conftest import ROOT

with warnings.catch_warnings():
    # Of the libraries, about themselves.
    warnings.simplefilter("ignore")
    import pyshacl
    import rdflib
from rdflib import DCAT, DCTERMS, FOAF, PROV, RDF

SHAPES = ROOT / "tests" / "unit" / "shapes"
URL = "https://data.example.org/research"

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The two publications of the bundled example, of the first third of its cases."""
    work = tmp_path_factory.mktemp("catalogue")
    log = read_log(ROOT / "examples" / "hospital.xes.gz")
    write_log(log.select_cases(np.arange(700)), work / "hospital.xes.gz")
    output = work / "out"
    config = ROOT / "examples" / "hospital.toml"
    assert execute(["replay", str(work / "hospital.xes.gz"), "-c", str(config), "-o", str(output)]) == 0
    return output


def record(folder: Path, tmp_path: Path, *words: str) -> Path:
    """The file that the command writes."""
    path = tmp_path / "record.jsonld"
    assert execute(["catalogue", str(folder), *words, "-o", str(path)]) == 0
    return path


def graph(path: Path) -> rdflib.Graph:
    """The statements of a record; nothing is loaded from elsewhere."""
    return rdflib.Graph().parse(data=path.read_text(encoding="utf-8"), format="json-ld")


DCAT_AP = ("dcat-ap-3.0.0-shapes", "dcat-ap-3.0.0-range")
HEALTH = (*DCAT_AP, "healthdcat-ap-8-mandatory")


@cache
def shapes(names: tuple[str, ...]) -> rdflib.Graph:
    """The published shapes of these names as one graph."""
    graph = rdflib.Graph()
    for name in names:
        graph.parse(SHAPES / f"{name}.ttl", format="turtle")
    return graph


def problems(data: rdflib.Graph, names: tuple[str, ...] = DCAT_AP) -> str:
    """Return the faults of a record by shapes: all constraints, and the classes of values."""
    conforms, _, text = pyshacl.validate(data, shacl_graph=shapes(names), advanced=True)
    return "" if conforms else str(text)


@pytest.mark.parametrize("publication", ["research", "statistics"])
@pytest.mark.parametrize("more", [(), ("--url", URL)], ids=["without address", "with address"])
def test_a_record_is_valid(folder: Path, tmp_path: Path, publication: str, more: tuple[str, ...]) -> None:
    """Groups and noise, with files and without, with a publisher."""
    facts = tmp_path / "dossier.toml"
    facts.write_text('controller = "St. Elsewhere <hospital>"\npurpose = "Research on waiting times"\n')
    data = graph(record(folder, tmp_path, publication, "--facts", str(facts), *more))
    assert problems(data) == ""
    datasets = set(data.subjects(RDF.type, DCAT.Dataset))
    manifests = list((folder / "public" / publication).glob("release-*/manifest.json"))
    assert len(datasets) == len(manifests) > 1
    files = list(data.subjects(RDF.type, DCAT.Distribution))
    assert len(files) == (len(manifests) if more else 0)
    assert [str(name) for name in data.objects(None, FOAF.name)] == ["St. Elsewhere <hospital>"]


@pytest.mark.parametrize("missing", [DCTERMS.title, DCTERMS.description, DCAT.accessURL])
def test_a_record_that_lacks_something_is_refused(folder: Path, tmp_path: Path, missing: Any) -> None:
    """Negative control of the shapes."""
    data = graph(record(folder, tmp_path, "research", "--url", URL))
    data.remove((None, missing, None))
    assert "MinCount" in problems(data)


def test_a_record_says_what_the_manifests_say(folder: Path, tmp_path: Path) -> None:
    """Promise, checksums, moments, parameters, and the chain of releases."""
    data = graph(record(folder, tmp_path, "research", "--url", URL))
    for path in sorted((folder / "public" / "research").glob("release-*/manifest.json")):
        manifest = json.loads(path.read_text())
        dataset = rdflib.URIRef(f"{URL}/{path.parent.name}")
        description = str(data.value(dataset, DCTERMS.description))
        for key in ("guaranteed", "to_whom", "against_whom", "not_guaranteed"):
            assert manifest["promise"][key] in description
        assert str(data.value(dataset, DCTERMS.issued)) == manifest["published"]
        file = data.value(dataset, DCAT.distribution)
        checksum = data.value(file, rdflib.URIRef("http://spdx.org/rdf/terms#checksum"))
        value = data.value(checksum, rdflib.URIRef("http://spdx.org/rdf/terms#checksumValue"))
        assert str(value).lower() == manifest["files"][0]["sha256"]
        build = data.value(dataset, PROV.wasGeneratedBy)
        assert (build, RDF.type, PROV.Activity) in data
        assert "K = 20" in str(data.value(build, DCTERMS.description))
        assert data.value(dataset, PROV.wasDerivedFrom) == data.value(build, PROV.used)
        earlier = data.value(dataset, rdflib.URIRef("http://www.w3.org/ns/dcat#prev"))
        if manifest["previous"] is None:
            assert earlier is None
        else:
            assert str(earlier) == f"{URL}/release-{manifest['previous']:06d}"


def test_the_public_folder_alone_is_enough(folder: Path, tmp_path: Path) -> None:
    """Nothing of the operator's is read: the same record comes of the public folder without the rest."""
    whole = record(folder, tmp_path, "research").read_bytes()
    shutil.copytree(folder / "public", tmp_path / "public")
    assert record(tmp_path / "public", tmp_path, "research").read_bytes() == whole
    text = whole.decode()
    for private in ("ledger", "operator/", "P00001"):
        assert private not in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["research", "-o", "record.ttl"], "the record is written as .jsonld"),
        (["research", "--url", "data.example.org"], "give the address that recipients use"),
        (["other"], "no release of publication 'other'"),
        ([], "name the publication"),
    ],
)
def test_what_cannot_be_recorded(
    folder: Path, words: list[str], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """One line with the remedy."""
    assert execute(["catalogue", str(folder), *words]) == 2
    assert message in capfd.readouterr().err


HEALTH_FACTS = {
    "health_category": "EHRS",
    "access_rights": "NON_PUBLIC",
    "hdab": "Health Data Access Body of <the state>",
    "hdab_contact": "access@hdab.example.org",
    "contact": "https://hospital.example.org/data",
    "keywords": "emergency, waiting times",
    "dataset_type": "STATISTICAL",
}


def write_health_facts(path: Path, **changed: str) -> Path:
    """A file of facts with a table for a catalogue of health data; an empty value leaves its key out."""
    lines = ['controller = "St. Elsewhere"', 'purpose = "Research"', "[catalogue]"]
    lines += [f'{key} = "{value}"' for key, value in {**HEALTH_FACTS, **changed}.items() if value]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("publication", "rights"), [("research", "NON_PUBLIC"), ("research", "RESTRICTED"), ("statistics", "PUBLIC")]
)
def test_facts_for_a_health_catalogue_make_a_record_of_its_profile(
    folder: Path, tmp_path: Path, publication: str, rights: str
) -> None:
    """Valid by DCAT-AP and by what HealthDCAT-AP makes mandatory, for groups and noise."""
    facts = write_health_facts(tmp_path / "dossier.toml", access_rights=rights)
    data = graph(record(folder, tmp_path, publication, "--facts", str(facts), "--url", URL))
    assert problems(data, HEALTH) == ""
    health = rdflib.Namespace("http://healthdataportal.eu/ns/health#")
    names = {str(data.value(body, FOAF.name)) for body in data.objects(None, health.hdab)}
    assert names == {HEALTH_FACTS["hdab"]}
    manifest = json.loads((folder / "public" / publication / "release-000001" / "manifest.json").read_text())
    group = data.value(rdflib.URIRef(f"{URL}/release-000001"), health.hasVariables)
    csvw = rdflib.Namespace("http://www.w3.org/ns/csvw#")
    columns = data.objects(data.value(group, csvw.table), csvw.column)
    assert {str(data.value(column, csvw.name)) for column in columns} == set(manifest["carries"])


@pytest.mark.parametrize(
    "missing",
    [
        "http://healthdataportal.eu/ns/health#hdab",
        "http://healthdataportal.eu/ns/health#healthCategory",
        "http://healthdataportal.eu/ns/health#hasVariables",
        "http://data.europa.eu/r5r/applicableLegislation",
        "http://data.europa.eu/m8g/contactPoint",
        "http://purl.org/dc/terms/provenance",
        "http://www.w3.org/ns/dcat#keyword",
        "http://www.w3.org/ns/csvw#datatype",
    ],
)
def test_a_health_record_that_lacks_something_is_refused(folder: Path, tmp_path: Path, missing: str) -> None:
    """Negative control of the mandatory properties."""
    facts = write_health_facts(tmp_path / "dossier.toml")
    data = graph(record(folder, tmp_path, "research", "--facts", str(facts), "--url", URL))
    data.remove((None, rdflib.URIRef(missing), None))
    assert "Constraint" in problems(data, HEALTH[2:])


def test_a_record_without_health_facts_is_none_of_the_profile(folder: Path, tmp_path: Path) -> None:
    assert "Constraint" in problems(graph(record(folder, tmp_path, "research", "--url", URL)), HEALTH[2:])


@pytest.mark.parametrize(
    ("changed", "url", "message"),
    [
        ({"hdab": ""}, True, "HealthDCAT-AP also asks for hdab"),
        ({"keywords": "", "dataset_type": ""}, True, "HealthDCAT-AP also asks for keywords, dataset_type"),
        ({"access_rights": "SECRET"}, True, "access_rights must be PUBLIC, RESTRICTED, NON_PUBLIC"),
        ({"contact": "the IT department"}, True, "contact: must be an e-mail address or the address of a page"),
        ({"health_category": "electronic records"}, True, "must be a code of the EU vocabulary such as EHRS"),
        ({"hdap": "x"}, True, "unknown key 'hdap'"),
        ({}, False, "HealthDCAT-AP also asks for --url"),
    ],
)
def test_health_facts_that_do_not_suffice(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], changed: dict[str, str], url: bool, message: str
) -> None:
    facts = write_health_facts(tmp_path / "dossier.toml", **changed)
    words = ["catalogue", str(folder), "research", "--facts", str(facts), *(["--url", URL] if url else [])]
    assert execute(words) == 2
    assert message in capfd.readouterr().err


def test_the_dossier_does_not_print_facts_for_a_catalogue(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    facts = write_health_facts(tmp_path / "dossier.toml")
    assert execute(["dossier", str(folder), "research", "--facts", str(facts)]) == 0
    text = capfd.readouterr().out
    assert "St. Elsewhere" in text
    assert "Health Data Access Body of" not in text
