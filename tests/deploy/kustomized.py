"""What `kubectl kustomize` makes of a folder: as much of kustomize as our folders use, and a complaint about any more."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

Manifest = dict[str, Any]

UNDERSTOOD = {
    "apiVersion", "kind", "namespace", "resources", "images", "configMapGenerator", "generatorOptions", "patches",
}  # fmt: skip
WITHOUT_NAMESPACE = ("Namespace",)
SETS = ("StatefulSet", "Deployment")
"""Kinds that make pods."""
MERGED_BY = {"containers": "name", "env": "name", "volumes": "name", "volumeMounts": "mountPath", "ports": "containerPort"}
"""Lists of which a patch's items are merged with those of the same key; a patch's other lists replace what was there."""


def kustomization(folder: Path) -> dict[str, Any]:
    content = yaml.safe_load((folder / "kustomization.yaml").read_text())
    assert isinstance(content, dict)
    assert set(content) <= UNDERSTOOD, f"{folder}: teach the tests about {sorted(set(content) - UNDERSTOOD)}"
    return content


def manifests_in(path: Path) -> list[Manifest]:
    return [manifest for manifest in yaml.safe_load_all(path.read_text()) if manifest is not None]


def kustomized(folder: Path) -> list[Manifest]:
    """The manifests of a base or an overlay."""
    content = kustomization(folder)
    manifests: list[Manifest] = []
    for resource in content.get("resources", ()):
        path = (folder / resource).resolve()
        manifests += kustomized(path) if path.is_dir() else deepcopy(manifests_in(path))
    for generator in content.get("configMapGenerator", ()):
        assert content["generatorOptions"] == {"disableNameSuffixHash": True}
        data = {name: (folder / name).read_text() for name in generator["files"]}
        manifests.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": generator["name"]}, "data": data})
    for patch in content.get("patches", ()):
        for change in manifests_in(folder / patch["path"]):
            [target] = [manifest for manifest in manifests if identity(manifest) == identity(change)]
            merge(target, change)
    for manifest in manifests:
        if "namespace" in content and manifest["kind"] not in WITHOUT_NAMESPACE:
            manifest["metadata"]["namespace"] = content["namespace"]
        for container in containers_of(manifest):
            for image in content.get("images", ()):
                if container["image"] == image["name"]:
                    container["image"] = f"{image['newName']}:{image['newTag']}"
    return manifests


def identity(manifest: Manifest) -> tuple[str, str, str]:
    return manifest["apiVersion"], manifest["kind"], manifest["metadata"]["name"]


def merge(target: dict[str, Any], change: dict[str, Any]) -> None:
    """A strategic merge, in place."""
    for name, value in change.items():
        if isinstance(value, dict) and isinstance(target.get(name), dict):
            merge(target[name], value)
        elif isinstance(value, list) and name in MERGED_BY and isinstance(target.get(name), list):
            key = MERGED_BY[name]
            there = {item[key]: item for item in target[name]}
            for item in value:
                if item[key] in there:
                    merge(there[item[key]], item)
                else:
                    target[name].append(item)
        else:
            target[name] = value


def containers_of(manifest: Manifest) -> list[dict[str, Any]]:
    return list(manifest["spec"]["template"]["spec"]["containers"]) if manifest["kind"] in SETS else []
