"""Throw-away certificates: an authority of the test's own and whom it signs for, made by the `openssl` command."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

LOOPBACK = "IP:127.0.0.1,DNS:localhost"
# `openssl ca` is the one command of all versions that can sign for a time that is over.
_CA_CONFIGURATION = """
[ca]
default_ca = own
[own]
database = {directory}/index.txt
serial = {directory}/serial
new_certs_dir = {directory}
certificate = {directory}/ca.pem
private_key = {directory}/ca.key
default_md = sha256
policy = any
unique_subject = no
x509_extensions = names
[any]
commonName = supplied
[names]
subjectAltName = {names}
"""


def require_openssl() -> str:
    """The `openssl` command; skips the test where it is missing, fails it in CI."""
    found = shutil.which("openssl")
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail("CI needs the openssl command")
        pytest.skip("no openssl on the PATH to make certificates with")
    return found


class KeyPair(NamedTuple):
    """Paths of a certificate and of its private key, both PEM."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority in a directory; `certificate` is what clients trust."""

    def __init__(self, directory: Path, name: str = "test authority") -> None:
        """Create its key and certificate."""
        self._openssl = require_openssl()
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.certificate = directory / "ca.pem"
        (directory / "index.txt").touch()
        (directory / "serial").write_text("1000")
        subject = ["-x509", "-days", "2", "-subj", f"/CN={name}"]
        self._run("req", *_new_key(directory / "ca.key"), *subject, "-out", str(self.certificate))

    def issue(self, name: str, *, names: str = LOOPBACK, expired: bool = False) -> KeyPair:
        """Sign for a new key; `names` are its subject alternative names."""
        pair = KeyPair(self._directory / f"{name}.pem", self._directory / f"{name}.key")
        request, configuration = self._directory / f"{name}.csr", self._directory / f"{name}.cnf"
        configuration.write_text(_CA_CONFIGURATION.format(directory=self._directory, names=names))
        self._run("req", *_new_key(pair.key), "-subj", f"/CN={name}", "-out", str(request))
        validity = ["-startdate", "20200101000000Z", "-enddate", "20200201000000Z"] if expired else ["-days", "2"]
        signing = ["-batch", "-notext", "-config", str(configuration), *validity]
        self._run("ca", *signing, "-in", str(request), "-out", str(pair.certificate))
        return pair

    def encrypted(self, pair: KeyPair, password: str) -> KeyPair:
        """The same pair with its key encrypted as PKCS #8."""
        key = pair.key.with_suffix(".encrypted.key")
        choice = ["-topk8", "-v1", "PBE-SHA1-3DES", "-passout", f"pass:{password}"]
        self._run("pkcs8", *choice, "-in", str(pair.key), "-out", str(key))
        return KeyPair(pair.certificate, key)

    def keystore(self, pair: KeyPair) -> Path:
        """One PEM file with key and certificates, as Kafka's keystores of type PEM are."""
        path = pair.key.with_suffix(".keystore.pem")
        path.write_text(pair.key.read_text() + pair.certificate.read_text() + self.certificate.read_text())
        return path

    def _run(self, *arguments: str) -> None:
        done = subprocess.run([self._openssl, *arguments], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.fail(f"openssl {arguments[0]} failed: {done.stderr}")


def _new_key(path: Path) -> list[str]:
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    return ["-new", *curve, "-nodes", "-keyout", str(path)]
