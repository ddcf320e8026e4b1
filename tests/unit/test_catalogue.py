"""`veilstream catalogue`: the record is valid by the published shapes, and says what the manifests say."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest

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
    """The two publications of the bundled example."""
    output = tmp_path_factory.mktemp("catalogue") / "out"
    config = ROOT / "examples" / "hospital.toml"
    assert execute(["replay", str(ROOT / "examples" / "hospital.xes.gz"), "-c", str(config), "-o", str(output)]) == 0
    return output


def record(folder: Path, tmp_path: Path, *words: str) -> Path:
    """The file that the command writes."""
    path = tmp_path / "record.jsonld"
    assert execute(["catalogue", str(folder), *words, "-o", str(path)]) == 0
    return path


def graph(path: Path) -> rdflib.Graph:
    """The statements of a record; nothing is loaded from elsewhere."""
    return rdflib.Graph().parse(data=path.read_text(encoding="utf-8"), format="json-ld")


def problems(data: rdflib.Graph) -> str:
    """Return the faults of a record by the shapes of DCAT-AP 3: all constraints, and the classes of values."""
    shapes = rdflib.Graph()
    for name in ("shapes", "range"):
        shapes.parse(SHAPES / f"dcat-ap-3.0.0-{name}.ttl", format="turtle")
    conforms, _, text = pyshacl.validate(data, shacl_graph=shapes, advanced=True)
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
