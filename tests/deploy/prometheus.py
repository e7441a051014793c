"""A real Prometheus on this machine, with our configuration."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.free_ports import free_ports
from tests.stream.programs import PATIENCE

FOLDER = Path(__file__).parents[2] / "deploy" / "prometheus"
RULES = sorted((FOLDER / "rules").glob("*.yml"))
RULE_TESTS = sorted((FOLDER / "tests").glob("*.yml"))
"""As promtool reads them."""

MISSING = [name for name in ("prometheus", "promtool") if shutil.which(name) is None]
NEEDS_PROMETHEUS = [
    pytest.mark.prometheus,
    pytest.mark.skipif(bool(MISSING), reason="no Prometheus: apt-get install --no-install-recommends prometheus"),
]
"""The marks of a module whose tests run `prometheus` or `promtool`."""


def rules(kind: str) -> list[dict[str, Any]]:
    """All rules of a kind: "alert" or "record"."""
    groups = [group for path in RULES for group in yaml.safe_load(path.read_text())["groups"]]
    return [rule for group in groups for rule in group["rules"] if kind in rule]


def configuration(targets: Mapping[str, Sequence[tuple[str, str]]], token: Path) -> dict[str, Any]:
    """Ours, but every second, from (DNS name, address) by job instead of by asking a DNS server, and with this token."""
    content: dict[str, Any] = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    content["global"] = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
    content["rule_files"] = [str(FOLDER / pattern) for pattern in content["rule_files"]]
    assert [job["job_name"] for job in content["scrape_configs"]] == list(targets)
    for job in content["scrape_configs"]:
        del job["dns_sd_configs"]
        found = targets[job["job_name"]]
        job["static_configs"] = [{"targets": [where], "labels": {"__meta_dns_name": name}} for name, where in found]
        if "authorization" in job:
            job["authorization"]["credentials_file"] = str(token)
    return content


class Prometheus:
    """One process; its data is in `folder`."""

    def __init__(self, folder: Path, content: dict[str, Any]) -> None:
        (folder / "prometheus.yml").write_text(yaml.safe_dump(content))
        self._address = f"127.0.0.1:{free_ports(1)[0]}"
        self._log = folder / "prometheus.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                ["prometheus", f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}",
                 f"--web.listen-address={self._address}"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()

    def query(self, expression: str) -> list[Any]:
        """What an expression gives now; nothing while Prometheus is starting."""
        assert self._process.poll() is None, self._log.read_text()
        parameters = urllib.parse.urlencode({"query": expression})
        try:
            with urllib.request.urlopen(f"http://{self._address}/api/v1/query?{parameters}", timeout=30) as answer:
                return list(json.load(answer)["data"]["result"])
        except urllib.error.HTTPError as error:
            with error:
                assert error.code == 503, f"{expression}: {error.read().decode()}"
        except OSError:
            pass
        return []

    def wait_for(self, *expressions: str, timeout: float = PATIENCE) -> None:
        """Wait until every expression has a result."""
        deadline = time.monotonic() + timeout
        while empty := [expression for expression in expressions if not self.query(expression)]:
            assert time.monotonic() < deadline, "nothing came back from:\n" + "\n".join(empty)
            time.sleep(0.2)
