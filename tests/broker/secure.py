"""A broker that lets in who proves to be somebody, by TLS and SCRAM or by mutual TLS, and then allows what its ACLs say."""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.broker.broker import KafkaBroker
from tests.broker.certificates import BROKER_NAME, Certificates, Identity
from tests.free_ports import free_ports

MECHANISM = "SCRAM-SHA-512"
TOOL = Path(__file__).parent / "java" / "Acls.java"


class SecureBroker(KafkaBroker):
    """Principals with a password come to `url_of_scram`, those with a certificate to `url_of_mutual_tls`.

    Nobody is allowed anything until `acls` adds it. The plain listener is the broker administrator's.
    """

    def __init__(self, folder: Path, principals: Sequence[str]) -> None:
        super().__init__(folder)
        self._mutual_port, self._astray_port = free_ports(2)
        self.certificates = Certificates(folder / "certificates")
        self.passwords = {principal: secrets.token_urlsafe(12).replace("-", "_") for principal in principals}
        self._tool: subprocess.Popen[str] | None = None

    @property
    def url_of_scram(self) -> str:
        return f"kafka://{BROKER_NAME}:{self.guest_port}"

    @property
    def url_of_mutual_tls(self) -> str:
        return f"kafka://{BROKER_NAME}:{self._mutual_port}"

    @property
    def url_of_another_name(self) -> str:
        """The same as `url_of_scram`, but this listener advertises an address that is not in its certificate."""
        return f"kafka://{BROKER_NAME}:{self._astray_port}"

    def environment(self, principal: str) -> dict[str, str]:
        """How a principal connects to `url_of_scram`."""
        return {
            "STREAMPROC_KAFKA_SECURITY": "SASL_SSL",
            "STREAMPROC_KAFKA_MECHANISM": MECHANISM,
            "STREAMPROC_KAFKA_USER": principal,
            "STREAMPROC_KAFKA_PASSWORD_FILE": str(self.password_file(principal, self.passwords[principal])),
            "STREAMPROC_KAFKA_CA": str(self.certificates.authority),
        }

    def mutual_environment(self, identity: Identity) -> dict[str, str]:
        """How the holder of a certificate connects to `url_of_mutual_tls`."""
        return {
            "STREAMPROC_KAFKA_SECURITY": "SSL",
            "STREAMPROC_KAFKA_CA": str(self.certificates.authority),
            "STREAMPROC_KAFKA_CERT": str(identity.certificate),
            "STREAMPROC_KAFKA_KEY": str(identity.key),
        }

    def password_file(self, name: str, password: str) -> Path:
        path = self.folder / f"{name}.password"
        path.touch(mode=0o600)
        path.write_text(password + "\n")
        return path

    def start(self, *, timeout: float = 180.0) -> None:
        """Start the tool for ACLs too, which takes as long to get ready as the broker."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "acls.log").open("ab") as log:
            self._tool = subprocess.Popen(
                [*self.java_command(), str(TOOL), f"127.0.0.1:{self.port}"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True,
            )  # fmt: skip
        super().start(timeout=timeout)

    def change_password(self, principal: str, password: str) -> None:
        """As docs/security.md says: from a file."""
        file = self.folder / "change.scram"
        file.touch(mode=0o600)
        file.write_text(f"{MECHANISM}=iterations=8192,password={password}\n")
        server = ["--bootstrap-server", f"127.0.0.1:{self.port}"]
        user = ["--entity-type", "users", "--entity-name", principal]
        self._java("kafka.admin.ConfigCommand", *server, "--alter", *user, "--add-config-file", str(file))
        self.passwords[principal] = password

    def acls(self, *arguments: str) -> None:
        """One call of kafka-acls, as the broker's administrator: `--add --allow-principal User:x ...`."""
        assert self._tool is not None
        assert self._tool.stdin is not None
        assert self._tool.stdout is not None
        self._tool.stdin.write(" ".join(arguments) + "\n")
        self._tool.stdin.flush()
        answer = self._tool.stdout.readline().strip()
        if answer != "ok":
            raise RuntimeError(f"kafka-acls {' '.join(arguments)}: {answer or 'ended'}")

    def kill(self) -> None:
        """End the broker, and the tool beside it."""
        if self._tool is not None:
            self._tool.kill()
            self._tool.communicate()
            self._tool = None
        super().kill()

    def _format_options(self) -> list[str]:
        return [
            option
            for principal, password in self.passwords.items()
            for option in ("--add-scram", f"{MECHANISM}=[name={principal},password={password}]")
        ]

    def _properties(self) -> dict[str, str]:
        here = f"SCRAM://127.0.0.1:{self.guest_port},MUTUAL://127.0.0.1:{self._mutual_port}"
        astray = f"ASTRAY://127.0.0.1:{self._astray_port}"
        named = here.replace("127.0.0.1", BROKER_NAME)
        plain = super()._properties()
        return {
            **{key: value for key, value in plain.items() if "guest" not in key},
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},{here},{astray},CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port},{named},{astray}",
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,SCRAM:SASL_SSL,ASTRAY:SASL_SSL,MUTUAL:SSL,CONTROLLER:PLAINTEXT"
            ),
            "sasl.enabled.mechanisms": MECHANISM,
            **{
                f"listener.name.{name}.scram-sha-512.sasl.jaas.config": (
                    "org.apache.kafka.common.security.scram.ScramLoginModule required;"
                )
                for name in ("scram", "astray")
            },
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.certificates.broker),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.certificates.authority),
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.mutual.ssl.principal.mapping.rules": "RULE:^.*CN=([a-z]+).*$/$1/,DEFAULT",
        }
