"""Certificates for a broker with TLS and for its clients, as files in PEM."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

BROKER_NAME = "localhost"
"""The only name in the broker's certificate: under 127.0.0.1 it is somebody else."""


@dataclass(frozen=True)
class Identity:
    """A client's certificate and its key."""

    certificate: Path
    key: Path


class Certificates:
    """An authority whose certificates the broker and its clients trust, and another that nobody trusts."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._authority, stranger = trustme.CA(), trustme.CA()
        self.authority = self._write("authority.pem", self._authority.cert_pem.bytes())
        self.stranger = self._write("stranger.pem", stranger.cert_pem.bytes())
        broker = self._authority.issue_cert(BROKER_NAME)
        self.broker = self._write("broker.pem", _pkcs8(broker) + b"".join(each.bytes() for each in broker.cert_chain_pems))
        self._stranger = stranger

    def client(self, name: str) -> Identity:
        """Of a client whose principal is `name`."""
        return self._identity(name, self._authority.issue_cert(f"{name}.example", common_name=name))

    def expired_client(self, name: str) -> Identity:
        """A certificate that expired yesterday."""
        now = datetime.now(UTC)
        issued = self._authority.issue_cert(
            f"{name}.example", common_name=name, not_before=now - timedelta(days=9), not_after=now - timedelta(days=1)
        )
        return self._identity(f"{name}-expired", issued)

    def foreign_client(self, name: str) -> Identity:
        """A certificate from an authority that is not trusted."""
        return self._identity(f"{name}-foreign", self._stranger.issue_cert(f"{name}.example", common_name=name))

    def _identity(self, file: str, issued: trustme.LeafCert) -> Identity:
        certificate = self._write(f"{file}.pem", b"".join(each.bytes() for each in issued.cert_chain_pems))
        return Identity(certificate, self._write(f"{file}.key", issued.private_key_pem.bytes()))

    def _write(self, name: str, content: bytes) -> Path:
        path = self._folder / name
        path.write_bytes(content)
        path.chmod(0o600)
        return path


def _pkcs8(issued: trustme.LeafCert) -> bytes:
    """The only form of a key that Kafka reads."""
    key = load_pem_private_key(issued.private_key_pem.bytes(), password=None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
