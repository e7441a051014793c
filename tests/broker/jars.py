"""The jars of a Kafka broker, fetched once with Maven."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from pathlib import Path

from tests.fetching import fetch

HERE = Path(__file__).parent
CACHE = HERE.parent.parent / ".kafka"
VERSION = "4.1.0"


def missing_programs() -> str | None:
    """What has to be installed before there can be a broker; None if everything is there."""
    packages = {"java": "default-jre-headless", "mvn": "maven"}
    missing = [package for program, package in packages.items() if shutil.which(program) is None]
    return f"a broker needs Java (17 or newer) and Maven: apt-get install {' '.join(missing)}" if missing else None


def kafka_jars() -> Path:
    """The folder of the jars; several test runs may ask at once, and the first fetches (about 54 MB)."""
    jars = CACHE / f"jars-{VERSION}"
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "fetch.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not jars.is_dir():
            with tempfile.TemporaryDirectory(dir=CACHE) as folder:
                _fetch(Path(folder) / "jars")
                (Path(folder) / "jars").rename(jars)
    return jars


def _fetch(folder: Path) -> None:
    command = ["mvn", "--batch-mode", "--quiet", "--file", str(HERE / "pom.xml")]
    command += ["dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
    fetch(command, clean=lambda: shutil.rmtree(folder, ignore_errors=True))
