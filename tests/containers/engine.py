"""The Docker engine of this machine, and the images the tests run."""

from __future__ import annotations

import fcntl
import shutil
from pathlib import Path

from docker.errors import DockerException  # type: ignore[import-untyped]
from testcontainers.core.docker_client import DockerClient

from tests.broker.jars import CACHE
from tests.fetching import fetch

ROOT = Path(__file__).parents[2]
MAKE_IMAGES = ROOT / "deploy" / "airgap" / "make-images"

STREAMPROC = "streamproc-airgap/streamproc"
KAFKA = "streamproc-airgap/kafka"
"""The images that `make-images` makes: built from the same Dockerfile as those of a registry, and made without one."""


def missing_engine() -> str | None:
    """What has to be installed or started before there can be containers; None if everything is there."""
    packages = {"mmdebstrap": "mmdebstrap", "mvn": "maven", "javac": "default-jdk-headless"}
    missing = [package for program, package in packages.items() if shutil.which(program) is None]
    if missing:
        return f"images are made with {', '.join(missing)}: apt-get install {' '.join(missing)}"
    try:
        DockerClient().client.close()
    except DockerException:
        return "no Docker engine answers: apt-get install docker.io iptables docker-compose, and start dockerd"
    return None


def make_images() -> None:
    """Make what is missing or no longer up to date; the engine's own cache knows. One test process at a time."""
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "images.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        fetch([MAKE_IMAGES])
