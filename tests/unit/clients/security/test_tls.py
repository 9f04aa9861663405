"""TLS contexts from settings, and what failures mean; handshakes happen in memory."""

from __future__ import annotations

import contextlib
import ssl
from pathlib import Path
from typing import NamedTuple

import pytest

from crabka.clients.errors import ClientNetworkError, TlsAuthenticationError
from crabka.clients.security.settings import PemFile, TlsSettings
from crabka.clients.security.tls import tls_context, tls_failure, tls_length_failure
from crabka.errors import ConfigError
from crabka.security.secret import Secret
from tests.support.wire.certificates import Authority, KeyPair


class World(NamedTuple):
    """What an authority has signed."""

    authority: Authority
    server: KeyPair
    client: KeyPair


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    authority = Authority(tmp_path_factory.mktemp("authority"))
    return World(authority, authority.issue("server"), authority.issue("client"))


def trusting(authority: Authority) -> TlsSettings:
    return TlsSettings(trusted_file=PemFile("ssl.ca.location", str(authority.certificate)))


def serving(pair: KeyPair, *, clients_of: Authority | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*pair)
    if clients_of is not None:
        context.load_verify_locations(clients_of.certificate)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext, host: str = "127.0.0.1") -> ssl.SSLObject:
    """Let a client and a server talk in memory up to the first byte of the server; raises what the client does."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    near = client.wrap_bio(to_client, to_server, server_hostname=host)
    far = server.wrap_bio(to_server, to_client, server_side=True)
    far_is_done = False
    for _ in range(10):
        with contextlib.suppress(ssl.SSLWantReadError):
            near.do_handshake()
            near.read(1)
            return near
        try:
            if not far_is_done:
                far.do_handshake()
                far.write(b"x")
                far_is_done = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError:
            # The alert is on its way to the client.
            far_is_done = True
    raise AssertionError("the handshake does not end")


def failure(client: ssl.SSLContext, server: ssl.SSLContext, host: str = "127.0.0.1") -> Exception | None:
    with pytest.raises(ssl.SSLError) as caught:
        shake_hands(client, server, host)
    return tls_failure("broker:9093", caught.value)


def test_trusted_server_is_accepted_by_address_and_by_name(world: World) -> None:
    context = tls_context(trusting(world.authority))
    for host in ("127.0.0.1", "localhost"):
        assert shake_hands(context, serving(world.server), host).version() == "TLSv1.3"


def test_version_of_tls_is_limited(world: World) -> None:
    settings = TlsSettings(trusting(world.authority).trusted_file, max_version=ssl.TLSVersion.TLSv1_2)
    assert shake_hands(tls_context(settings), serving(world.server)).version() == "TLSv1.2"


def test_certificate_of_the_server_itself_can_be_trusted(world: World) -> None:
    settings = TlsSettings(PemFile("ssl.ca.location", str(world.server.certificate)))
    assert shake_hands(tls_context(settings), serving(world.server)).version()


@pytest.mark.parametrize("line_end", ["\n", " ", "\r\n"])
def test_certificates_in_the_property_are_trusted_however_lines_end(world: World, line_end: str) -> None:
    text = world.authority.certificate.read_text().strip().replace("\n", line_end)
    assert shake_hands(tls_context(TlsSettings(trusted_text=text)), serving(world.server)).version()


def test_without_a_truststore_the_certificates_of_the_machine_decide(world: World) -> None:
    reported = failure(tls_context(TlsSettings()), serving(world.server))
    assert isinstance(reported, TlsAuthenticationError)


def test_unknown_authority_is_reported(world: World, tmp_path: Path) -> None:
    stranger = Authority(tmp_path, "stranger")
    reported = failure(tls_context(trusting(stranger)), serving(world.server))
    assert isinstance(reported, TlsAuthenticationError)
    assert "not signed by an authority in ssl.ca.location or ssl.truststore.location" in str(reported)


def test_wrong_host_name_is_reported_unless_it_does_not_matter(world: World) -> None:
    settings = trusting(world.authority)
    for host in ("elsewhere.example", "127.0.0.2"):
        reported = failure(tls_context(settings), serving(world.server), host)
        assert isinstance(reported, TlsAuthenticationError)
        assert "its certificate is for another host" in str(reported)
        assert host in str(reported)
    lenient = TlsSettings(settings.trusted_file, checks_host_name=False)
    assert shake_hands(tls_context(lenient), serving(world.server), "elsewhere.example").version()


def test_an_authority_matters_even_where_the_host_name_does_not(world: World, tmp_path: Path) -> None:
    lenient = TlsSettings(trusting(Authority(tmp_path, "stranger")).trusted_file, checks_host_name=False)
    assert "not signed by an authority" in str(failure(tls_context(lenient), serving(world.server)))


def test_expired_certificate_is_reported(world: World) -> None:
    old = world.authority.issue("old", expired=True)
    reported = failure(tls_context(trusting(world.authority)), serving(old))
    assert isinstance(reported, TlsAuthenticationError)
    assert "is no longer valid" in str(reported)


def test_client_shows_its_certificate(world: World) -> None:
    server = serving(world.server, clients_of=world.authority)
    own = PemFile("ssl.keystore.location", str(world.authority.keystore(world.client)))
    settings = TlsSettings(trusting(world.authority).trusted_file, certificate_file=own, key_file=own)
    assert shake_hands(tls_context(settings), server).version()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_missing_certificate_of_the_client_is_reported(world: World, version: ssl.TLSVersion) -> None:
    server = serving(world.server, clients_of=world.authority)
    settings = TlsSettings(trusting(world.authority).trusted_file, max_version=version)
    reported = failure(tls_context(settings), server)
    assert isinstance(reported, TlsAuthenticationError)
    assert "set ssl.keystore.location" in str(reported)


def test_certificate_of_the_client_that_the_server_does_not_trust_is_reported(world: World, tmp_path: Path) -> None:
    server = serving(world.server, clients_of=world.authority)
    pair = Authority(tmp_path, "stranger").issue("client")
    own, key = PemFile("ssl.certificate.location", str(pair.certificate)), PemFile("ssl.key.location", str(pair.key))
    settings = TlsSettings(trusting(world.authority).trusted_file, certificate_file=own, key_file=key)
    reported = failure(tls_context(settings), server)
    assert isinstance(reported, TlsAuthenticationError)
    assert "the broker ended it with 'unknown ca'; if it wants a certificate of the client" in str(reported)


def test_encrypted_key_needs_its_password(world: World) -> None:
    pair = world.authority.encrypted(world.client, "s3cret")
    own, key = PemFile("ssl.certificate.location", str(pair.certificate)), PemFile("ssl.key.location", str(pair.key))
    trusted = trusting(world.authority).trusted_file
    server = serving(world.server, clients_of=world.authority)
    right = TlsSettings(trusted, certificate_file=own, key_file=key, key_password=Secret("s3cret"))
    assert shake_hands(tls_context(right), server).version()
    with pytest.raises(ConfigError, match=r"ssl.key.password: not set, and the key"):
        tls_context(TlsSettings(trusted, certificate_file=own, key_file=key))
    with pytest.raises(ConfigError, match=r"ssl.key.password: does not open") as caught:
        tls_context(TlsSettings(trusted, certificate_file=own, key_file=key, key_password=Secret("wr0ng")))
    assert "wr0ng" not in str(caught.value)


@pytest.mark.parametrize("line_end", ["\n", " "])
@pytest.mark.parametrize("password", [None, "s3cret"])
def test_client_shows_a_certificate_that_stands_in_a_property(
    world: World, line_end: str, password: str | None
) -> None:
    pair = world.client if password is None else world.authority.encrypted(world.client, password)
    settings = TlsSettings(
        trusting(world.authority).trusted_file,
        certificate_text=pair.certificate.read_text().replace("\n", line_end),
        key_text=Secret(pair.key.read_text().replace("\n", line_end)),
        key_password=None if password is None else Secret(password),
    )
    server = serving(world.server, clients_of=world.authority)
    assert shake_hands(tls_context(settings), server).version()


def test_mistakes_in_texts_name_the_property_and_show_no_key(world: World) -> None:
    chain, key = world.client.certificate.read_text(), Secret(world.client.key.read_text())
    locked = Secret(world.authority.encrypted(world.client, "s3cret").key.read_text())
    stranger = Secret(world.server.key.read_text())
    both = r"no certificate with its key in PEM in ssl.keystore.certificate.chain and ssl.keystore.key$"
    for settings, complaint in [
        (TlsSettings(certificate_text="x", key_text=key), both),
        (TlsSettings(certificate_text=chain, key_text=Secret("hush")), both),
        (
            TlsSettings(certificate_text=chain, key_text=stranger),
            r"^ssl.keystore.key: .* is not that of the certificate",
        ),
        (
            TlsSettings(certificate_text=chain, key_text=locked),
            r"^ssl.key.password: not set, .* ssl.keystore.key is enc",
        ),
        (
            TlsSettings(certificate_text=chain, key_text=locked, key_password=Secret("wr0ng")),
            r"^ssl.key.password: does not open the key in ssl.keystore.key$",
        ),
    ]:
        with pytest.raises(ConfigError, match=complaint) as caught:
            tls_context(settings)
        assert "hush" not in str(caught.value)
        assert "/proc" not in str(caught.value)


def test_files_that_are_missing_or_hold_something_else_are_reported(world: World, tmp_path: Path) -> None:
    nonsense = tmp_path / "nonsense.pem"
    nonsense.write_text("no certificate")
    missing, garbled = str(tmp_path / "missing.pem"), str(nonsense)
    with pytest.raises(ConfigError, match=r"ssl.ca.location: cannot read .*missing.pem: No such file"):
        tls_context(TlsSettings(PemFile("ssl.ca.location", missing)))
    with pytest.raises(ConfigError, match=r"ssl.truststore.location: .*nonsense.pem holds no certificates"):
        tls_context(TlsSettings(PemFile("ssl.truststore.location", garbled)))
    for text in ("", "x", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----"):
        with pytest.raises(ConfigError, match=r"ssl.truststore.certificates"):
            tls_context(TlsSettings(trusted_text=text))
    certificate = PemFile("ssl.certificate.location", str(world.client.certificate))
    for own, key, complaint in [
        (certificate._replace(path=missing), "x", r"ssl.certificate.location: cannot read .*missing.pem"),
        (certificate, missing, r"ssl.key.location: cannot read .*missing.pem"),
        (certificate._replace(path=garbled), str(world.client.key), "ssl.certificate.location: no certificate"),
        (certificate, garbled, "no certificate with its key"),
        (certificate, str(world.server.key), r"ssl.key.location: .* is not that of the certificate"),
    ]:
        with pytest.raises(ConfigError, match=complaint):
            tls_context(TlsSettings(certificate_file=own, key_file=PemFile("ssl.key.location", key)))


def test_a_peer_without_tls_is_reported(world: World) -> None:
    to_client = ssl.MemoryBIO()
    near = tls_context(trusting(world.authority)).wrap_bio(to_client, ssl.MemoryBIO(), server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        near.do_handshake()
    to_client.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    with pytest.raises(ssl.SSLError) as caught:
        near.do_handshake()
    reported = tls_failure("broker:9092", caught.value)
    assert isinstance(reported, TlsAuthenticationError)
    assert str(reported) == (
        "broker:9092 does not answer with TLS: set security.protocol to PLAINTEXT or SASL_PLAINTEXT"
    )


def test_a_peer_that_leaves_may_be_without_tls_and_may_come_back() -> None:
    for error in (ssl.SSLEOFError(8, "EOF"), ConnectionResetError(), ConnectionAbortedError(), BrokenPipeError()):
        reported = tls_failure("broker:9092", error)
        assert isinstance(reported, ClientNetworkError)
        assert "if its listener is without TLS, set security.protocol to PLAINTEXT" in str(reported)


def test_other_failures_of_the_network_are_not_about_tls() -> None:
    assert tls_failure("broker:9092", ConnectionRefusedError()) is None
    assert tls_failure("broker:9092", OSError(101, "Network is unreachable")) is None


def test_other_failures_of_tls_keep_their_reason() -> None:
    error = ssl.SSLError(1, "[SSL: INTERNAL_ERROR] internal error")
    assert "internal error" in str(tls_failure("broker:9092", error))


@pytest.mark.parametrize(
    ("head", "is_tls"), [(b"\x15\x03\x03\x00", True), (b"\x16\x03\x01\x02", True), (b"HTTP", False)]
)
def test_length_that_is_the_beginning_of_a_tls_record_is_recognised(head: bytes, is_tls: bool) -> None:
    reported = tls_length_failure("broker:9093", int.from_bytes(head, "big", signed=True))
    assert (reported is not None) is is_tls
    if reported is not None:
        assert str(reported) == "broker:9093 answers with TLS: set security.protocol to SSL or SASL_SSL"
