"""The command line against replies a healthy daemon does not give."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
import cli_daemon  # noqa: E402
from cli_fake import Fake  # noqa: E402

EMPTY = {"items": [], "nextCursor": None}


def cli(env, *argv):
    return subprocess.run([f"{cli_daemon.BUILD}/caisson", *argv], env=env, capture_output=True,
                          stdin=subprocess.DEVNULL, timeout=30, check=False)


def test_list_shows_the_former_name_of_what_is_going():
    items = [{"id": "1", "name": "DESTROYED_my_box_1a2b", "state": "destroying"},
             {"id": "2", "name": "here", "state": "started"}]
    with Fake({"GET /api/sandbox": (200, {"items": items})}) as f:
        env = {"CAISSON_URL": f.base + "/api", "CAISSON_API_KEY": "k"}
        rows = cli(env, "list").stdout.decode().splitlines()
        assert [r.split()[0] for r in rows] == ["NAME", "my_box", "here"]
        assert cli(env, "list", "--names").stdout == b"here\n"
        assert b"DESTROYED_my_box_1a2b" in cli(env, "list", "--json").stdout


def test_key_list_is_not_wider_than_it_must():
    many = [f"{v}:{w}" for v in ("read", "write", "delete") for w in ("a", "b", "c")]
    with Fake({"GET /api/api-keys": (200, [{"name": "k", "value": "dtn", "permissions": many},
                                           {"name": "l", "permissions": many[:2]}])}) as f:
        env = {"CAISSON_URL": f.base + "/api", "CAISSON_API_KEY": "k"}
        rows = cli(env, "key", "list").stdout.decode().splitlines()
        assert "read:a,read:b +7 " in rows[1] and "+" not in rows[2]


def test_self_signed_certificate_is_trusted_when_named(tmp_path):
    pem = str(tmp_path / "pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=t",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", pem, "-out",
                    pem + ".crt"], check=True, capture_output=True)
    with open(pem, "a", encoding="ascii") as whole, open(pem + ".crt", encoding="ascii") as crt:
        whole.write(crt.read())
    with Fake({"GET /api/sandbox": (200, EMPTY)}, cert=pem) as f:
        env = {"CAISSON_URL": f.base + "/api", "CAISSON_API_KEY": "k"}
        bare = cli(env, "list")
        assert bare.returncode == 1 and b"--cacert FILE" in bare.stderr and not f.asked
        for argv, more in ((["--cacert", pem + ".crt", "list"], {}),
                           (["list", "--cacert", pem + ".crt"], {}),
                           (["list"], {"SSL_CERT_FILE": pem + ".crt"}),
                           (["list"], {"CURL_CA_BUNDLE": pem + ".crt"})):
            out = cli({**env, **more}, *argv)
            assert out.returncode == 0, (argv, more, out)
        # The exec connection has a handle of its own; the fake refuses it in words.
        assert b"--cacert FILE" in cli(env, "exec", "x", "true").stderr
        assert b"no such route" in cli(env, "exec", "--cacert", pem + ".crt", "x", "true").stderr


def test_stop_of_an_ephemeral_sandbox_that_vanishes_is_no_fault():
    stopping = {"id": "the-id", "name": "n", "state": "stopping", "autoDeleteInterval": 0}
    with Fake({"POST /api/sandbox/n/stop": (200, stopping),
               "GET /api/sandbox/the-id": (404, {"message": "no sandbox the-id"})}) as f:
        out = cli({"CAISSON_URL": f.base + "/api", "CAISSON_API_KEY": "k"}, "stop", "n")
        assert (out.returncode, out.stderr) == (0, b"")
        assert out.stdout == b"n was deleted, as it is ephemeral\n"


def test_run_deletes_a_sandbox_that_failed_to_start():
    failed = {"id": "the-id", "name": "n", "state": "error", "errorReason": "no room"}
    with Fake({"POST /api/sandbox": (200, failed),
               "DELETE /api/sandbox/the-id": (200, {})}) as f:
        env = {"CAISSON_URL": f.base + "/api", "CAISSON_API_KEY": "k"}
        out = cli(env, "run", "--", "true")
        assert (out.returncode, out.stderr) == (125, b"caisson: run: n is error: no room\n")
        assert f.asked == ["POST /api/sandbox", "DELETE /api/sandbox/the-id"]
        assert b"kept the-id" in cli(env, "run", "--keep", "--", "true").stderr
        assert f.asked[2:] == ["POST /api/sandbox"]
