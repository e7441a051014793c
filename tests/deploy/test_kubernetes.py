"""The Kubernetes manifests: valid by the published schemas, whole, and in step with what the program does."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml

from streamproc.files.study_files import read_study
from streamproc.log.kafka.settings import KNOWN, PREFIX, KafkaSettings
from tests.deploy.kustomized import SETS, Manifest, identity, kustomization, kustomized, manifests_in
from tests.stream.programs import call

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"
BASE, EXAMPLE = FOLDER / "base", FOLDER / "overlays" / "example"
NAMESPACE = EXAMPLE / "namespace.yaml"
VERSIONS = ("1.30", "1.34")
"""Of Kubernetes: the oldest and the newest we mean."""
BROUGHT_ALONG = {"kafka-synthesizer", "kafka-gatherer", "kafka-analyst", "operator-token", "roster"}
"""Secrets that the operator makes; they are in no file."""
LISTENERS = {"public": 9100, "operator": 9101}
USERS = {"synthesizer": "synthesizer", "gatherer": "gatherer", "page": "analyst"}
"""Of the broker, for each set of pods."""
UNUSED = ("STREAMPROC_STATE", "STREAMPROC_OPERATOR_TOKEN_FILE")
"""Settings of all roles that `page` does not use."""


@pytest.fixture(scope="module")
def built() -> list[Manifest]:
    return kustomized(EXAMPLE)


def of_kind(manifests: list[Manifest], kind: str) -> dict[str, Manifest]:
    return {manifest["metadata"]["name"]: manifest for manifest in manifests if manifest["kind"] == kind}


def sets_of(manifests: list[Manifest]) -> dict[str, Manifest]:
    """What makes pods."""
    return {name: each for kind in SETS for name, each in of_kind(manifests, kind).items()}


def pod_of(manifest: Manifest) -> Any:
    return manifest["spec"]["template"]["spec"]


def container_of(manifest: Manifest) -> Any:
    [container] = pod_of(manifest)["containers"]
    return container


def environment_of(manifest: Manifest, manifests: list[Manifest]) -> dict[str, str]:
    container = container_of(manifest)
    found: dict[str, str] = {}
    for source in container["envFrom"]:
        found |= of_kind(manifests, "ConfigMap")[source["configMapRef"]["name"]]["data"]
    return found | {each["name"]: each.get("value", "") for each in container["env"]}


def matching(selector: dict[str, str], manifests: list[Manifest]) -> set[str]:
    """The sets whose pods a selector takes."""
    return {
        name
        for name, each in sets_of(manifests).items()
        if selector.items() <= each["spec"]["template"]["metadata"]["labels"].items()
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_every_manifest_is_valid_by_the_published_schemas(built: list[Manifest], version: str) -> None:
    for manifest in (*built, *manifests_in(NAMESPACE)):
        kubernetes_validate.validate(manifest, version, strict=True)


def test_the_schemas_would_find_a_slip() -> None:
    [manifest] = manifests_in(BASE / "synthesizer.yaml")
    container_of(manifest)["readOnlyRootFilesystem"] = True
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(manifest, VERSIONS[-1], strict=True)


@pytest.mark.parametrize("folder", [BASE, EXAMPLE], ids=["base", "example"])
def test_every_file_is_listed(folder: Path) -> None:
    content = kustomization(folder)
    listed = [resource for resource in content["resources"] if not (folder / resource).is_dir()]
    listed += [patch["path"] for patch in content.get("patches", ())]
    listed += [name for generator in content.get("configMapGenerator", ()) for name in generator["files"]]
    listed += [NAMESPACE.name] if folder == EXAMPLE else []
    assert sorted([*listed, "kustomization.yaml"]) == sorted(path.name for path in folder.iterdir())


def test_the_namespace_outlives_what_is_applied_to_it(built: list[Manifest]) -> None:
    """`kubectl delete -k` keeps the synthesizer's volume, which a namespace would take along."""
    [namespace] = manifests_in(NAMESPACE)
    assert namespace["metadata"]["name"] == kustomization(EXAMPLE)["namespace"]
    assert not of_kind(built, "Namespace")
    assert of_kind(built, "StatefulSet")["synthesizer"]["spec"]["persistentVolumeClaimRetentionPolicy"] == {
        "whenDeleted": "Retain",
        "whenScaled": "Retain",
    }


def test_a_synthesizer_that_refuses_can_be_started_with_catch_up(built: list[Manifest]) -> None:
    [text] = re.findall(r"--patch='(.*)'", (FOLDER / "README.md").read_text())
    [patch] = json.loads(text)
    synthesizer = of_kind(built, "StatefulSet")["synthesizer"]
    assert (patch["op"], patch["path"]) == ("add", "/spec/template/spec/containers/0/args/-")
    assert re.search(rf"^ +{patch['value']}\b", call(container_of(synthesizer)["args"][0], "--help").out, re.MULTILINE)
    # With the default a pod that is not ready is never replaced by one of a changed manifest.
    assert synthesizer["spec"]["podManagementPolicy"] == "Parallel"


def test_names_are_given_once(built: list[Manifest]) -> None:
    assert len({identity(manifest) for manifest in built}) == len(built)
    assert {manifest["metadata"].get("namespace", "poverty") for manifest in built} == {"poverty"}


def test_patches_arrive(built: list[Manifest]) -> None:
    sets = of_kind(built, "StatefulSet")
    assert sets["gatherer"]["spec"]["replicas"] == 2
    assert container_of(sets["synthesizer"])["resources"]["limits"] == {"cpu": "2", "memory": "1Gi"}
    assert container_of(sets["synthesizer"])["args"][0] == "synthesize"
    assert container_of(sets["gatherer"])["image"] == "example.org/streamproc:0.1.0"


@pytest.mark.skipif(
    shutil.which("kubectl") is None, reason="kubectl is not installed; the tests' own kustomize is used alone"
)
def test_kustomize_itself_makes_the_same(built: list[Manifest]) -> None:
    command = ["kubectl", "kustomize", str(EXAMPLE)]
    text = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    made = {identity(manifest): manifest for manifest in yaml.safe_load_all(text)}
    assert made == {identity(manifest): manifest for manifest in built}


def test_every_selector_takes_the_pods_it_means(built: list[Manifest]) -> None:
    everything = {"synthesizer", "gatherer", "page"}
    for name, each in sets_of(built).items():
        assert matching(each["spec"]["selector"]["matchLabels"], built) == {name}
    for each in of_kind(built, "StatefulSet").values():
        assert each["spec"]["serviceName"] in of_kind(built, "Service")
    assert {n: matching(s["spec"]["selector"], built) for n, s in of_kind(built, "Service").items()} == {
        "public": {"page"},
        "page": {"page"},
        "synthesizer": {"synthesizer"},
        "gatherer": {"gatherer"},
    }
    for name, each in of_kind(built, "PodDisruptionBudget").items():
        assert matching(each["spec"]["selector"]["matchLabels"], built) == {name}
    policies = of_kind(built, "NetworkPolicy")
    taken = {name: matching(each["spec"]["podSelector"]["matchLabels"], built) for name, each in policies.items()}
    assert taken == {"deny-all": everything, "public": {"page"}, "operator": everything, "broker": everything}


def test_the_operators_listener_is_for_prometheus_alone(built: list[Manifest]) -> None:
    policies = of_kind(built, "NetworkPolicy")
    assert policies["deny-all"]["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert not {"ingress", "egress"} & set(policies["deny-all"]["spec"])
    [rule] = policies["operator"]["spec"]["ingress"]
    [peer] = rule["from"]
    assert peer["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "monitoring"}
    assert peer["podSelector"]["matchLabels"] == {"app.kubernetes.io/name": "prometheus"}
    let_in = {(name, port["port"]) for name, each in policies.items() for rule in each["spec"].get("ingress", ())
              for port in rule["ports"]}  # fmt: skip
    assert let_in == {("public", "public"), ("operator", "operator")}
    for service in of_kind(built, "Service").values():
        shown = {port["targetPort"] for port in service["spec"]["ports"]}
        assert shown == ({"public"} if service["metadata"]["name"] in ("public", "page") else {"operator"})


@pytest.mark.parametrize("name", USERS)
def test_the_command_is_one_the_program_understands(built: list[Manifest], name: str) -> None:
    container = container_of(sets_of(built)[name])
    command, study, *options = container["args"]
    shown = call(command, "--help").out
    for option in options:
        assert re.search(rf"^ +{option.partition('=')[0]}\b", shown, re.MULTILINE), f"{command} has no {option}"
    assert study == "/etc/streamproc/study/study.toml"
    listens = dict(option.removeprefix("--").split("=0.0.0.0:") for option in options if "=" in option)
    ports = {port["name"]: str(port["containerPort"]) for port in container["ports"]}
    assert listens == ports
    assert ports.items() <= {name: str(port) for name, port in LISTENERS.items()}.items()
    for probe, path in (("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
        assert container[probe]["httpGet"]["path"] == path
        assert container[probe]["httpGet"]["port"] in ports


@pytest.mark.parametrize("name", USERS)
def test_every_volume_and_file_is_there(built: list[Manifest], name: str) -> None:
    each = sets_of(built)[name]
    claims = {claim["metadata"]["name"] for claim in each["spec"].get("volumeClaimTemplates", ())}
    volumes = {volume["name"]: volume for volume in pod_of(each)["volumes"]}
    mounts = {mount["mountPath"]: mount["name"] for mount in container_of(each)["volumeMounts"]}
    assert set(mounts.values()) == claims | set(volumes)
    maps, secrets = of_kind(built, "ConfigMap"), set()
    for volume in volumes.values():
        for source in volume.get("projected", {}).get("sources", ()):
            assert "secret" in source or source["configMap"]["name"] in maps
            secrets |= {source["secret"]["name"]} if "secret" in source else set()
        secrets |= {volume["secret"]["secretName"]} if "secret" in volume else set()
        assert "configMap" not in volume or volume["configMap"]["name"] in maps
    assert secrets <= BROUGHT_ALONG
    assert f"kafka-{USERS[name]}" in secrets
    assert name != "page" or secrets == {"kafka-analyst"}, "what everybody reaches holds no other secret"
    for variable, value in environment_of(each, built).items():
        if value.startswith("/") and not (name == "page" and variable in UNUSED):
            assert any(value.startswith(f"{path}/") for path in mounts), f"{variable}: {value} is on no volume"


@pytest.mark.parametrize("name", USERS)
def test_the_environment_is_one_the_program_understands(built: list[Manifest], name: str, tmp_path: Path) -> None:
    environ = environment_of(sets_of(built)[name], built)
    (tmp_path / "password").write_text("secret")
    settings = {key: value for key, value in environ.items() if key.startswith(PREFIX)}
    assert {key.removeprefix(PREFIX) for key in settings} <= set(KNOWN)
    # The certificates of the operator's brokers are not here; everything else is read as the program reads it.
    settings.pop(f"{PREFIX}CA")
    read = KafkaSettings.parse(("kafka:9093",), settings | {f"{PREFIX}PASSWORD_FILE": str(tmp_path / "password")})
    assert (read.user, read.security) == (USERS[name], "SASL_SSL")
    assert set(environ) - set(settings) == {
        "STREAMPROC_BROKER", "STREAMPROC_STATE", "STREAMPROC_OPERATOR_TOKEN_FILE", f"{PREFIX}CA",
    }  # fmt: skip


def test_a_gatherer_is_known_to_the_group_by_its_pods_name(built: list[Manifest]) -> None:
    sets = of_kind(built, "StatefulSet")
    [instance] = [each for each in container_of(sets["gatherer"])["env"] if each["name"] == f"{PREFIX}INSTANCE"]
    assert instance["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}
    assert sets["synthesizer"]["spec"]["replicas"] == 1


def test_a_gatherer_that_replays_is_seen_is_not_restarted_and_holds_up_no_start(built: list[Manifest]) -> None:
    """It is not ready for as long as the replay takes."""
    gatherer = of_kind(built, "StatefulSet")["gatherer"]
    probes = {name: probe["httpGet"]["path"] for name, probe in container_of(gatherer).items() if name.endswith("Probe")}
    assert probes == {"livenessProbe": "/livez", "readinessProbe": "/readyz"}
    assert gatherer["spec"]["podManagementPolicy"] == "Parallel"
    assert of_kind(built, "Service")["gatherer"]["spec"]["publishNotReadyAddresses"] is True


def test_there_are_not_more_gatherers_than_partitions(built: list[Manifest]) -> None:
    study = read_study(EXAMPLE / "study.toml")
    assert of_kind(built, "StatefulSet")["gatherer"]["spec"]["replicas"] <= study.broker.partitions


@pytest.mark.parametrize("name", USERS)
def test_pods_have_no_more_rights_than_they_need(built: list[Manifest], name: str) -> None:
    pod = pod_of(sets_of(built)[name])
    container = container_of(sets_of(built)[name])
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == pod["securityContext"]["fsGroup"] == 10001
    assert pod["securityContext"]["fsGroupChangePolicy"] == "OnRootMismatch"
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert set(container["resources"]) == {"requests", "limits"}
    assert pod["terminationGracePeriodSeconds"] >= 30
    assert not any("PASSWORD" in each["name"] or "TOKEN" in each["name"] for each in container["env"])
