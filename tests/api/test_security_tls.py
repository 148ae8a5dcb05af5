"""What a client can agree on with the daemon over TLS."""
import shutil
import socket
import ssl
import subprocess
import warnings

import pytest

import cli_daemon
from resthelp import wait_for

VERSIONS = [(ssl.TLSVersion.TLSv1, False), (ssl.TLSVersion.TLSv1_1, False),
            (ssl.TLSVersion.TLSv1_2, True), (ssl.TLSVersion.TLSv1_3, True)]


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    if not shutil.which("openssl"):
        pytest.skip("makes its certificate with openssl")
    top = tmp_path_factory.mktemp("tls")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                    "-subj", "/CN=localhost", "-keyout", top / "key", "-out", top / "cert"],
                   check=True, capture_output=True)
    daemon = cli_daemon.Daemon(args=["--tls-cert", str(top / "cert"), "--tls-key", str(top / "key")],
                               start=False)
    try:
        daemon.start(wait=False)
        wait_for(lambda: healthy(daemon.port))
        yield daemon.port
    finally:
        daemon.close()


def healthy(port):
    """The daemon answers 503 while it gets ready."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=20) as plain, \
                client(ssl.TLSVersion.TLSv1_3).wrap_socket(plain) as s:
            s.sendall(b"GET /api/health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            return b" 200 " in s.recv(4096)
    except OSError:
        return False


def client(version):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.maximum_version = context.minimum_version = version
    return context


@pytest.mark.parametrize("version,good", VERSIONS)
def test_only_current_versions(port, version, good):
    with socket.create_connection(("127.0.0.1", port), timeout=20) as plain:
        if not good:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                client(version).wrap_socket(plain)
            return
        with client(version).wrap_socket(plain) as s:
            s.sendall(b"GET /api/health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert b" 200 " in s.recv(4096)


def test_plain_text_gets_no_reply(port):
    with socket.create_connection(("127.0.0.1", port), timeout=20) as s:
        s.sendall(b"GET /api/health HTTP/1.1\r\nHost: x\r\n\r\n")
        try:
            assert b"HTTP" not in s.recv(4096)
        except ConnectionError:
            pass
