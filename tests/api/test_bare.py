"""Little to build on: images of one program, a daemon without a default image or with a bad one."""
import io
import os
import shutil
import tarfile

import pytest

import cli_daemon
from resthelp import refused, wait_for

IMAGE = None


def one_program():
    """An image that holds a static program and nothing else."""
    out = io.BytesIO()
    with tarfile.open(cli_daemon.BUSYBOX) as tar, tarfile.open(fileobj=out, mode="w") as made:
        member = next(m for m in tar if m.isfile() and os.path.basename(m.name) == "busybox")
        data = tar.extractfile(member).read()
        entry = tarfile.TarInfo("busybox")
        entry.size, entry.mode = len(data), 0o755
        made.addfile(entry, io.BytesIO(data))
    return out.getvalue()


@pytest.fixture(scope="module", name="lone")
def lone_program(api):
    api.post("/caisson/images?name=prog", one_program())
    sb = api.create(snapshot="prog", autoStopInterval=0)
    assert sb["state"] == "started", sb
    yield sb["id"]
    api.delete(f"/sandbox/{sb['id']}")


def test_without_a_default_image_the_daemon_is_ready_and_a_create_says_what_to_do(api):
    assert api.request("GET", "/health")[0] == 200
    refused(api, 400, "POST", "/sandbox", {}, says=(
        "snapshot: this daemon has no default image; name a snapshot, or start caissond with "
        "--default-image"))


def test_an_image_of_one_static_program_serves_every_call(api, lone):
    assert api.cli("exec", lone, "--", "/busybox", "id", "-u").stdout == b"0\n"
    box = f"/toolbox/{lone}"
    assert api.get(f"{box}/user-home-dir")["dir"] == "/"
    assert api.get(f"{box}/work-dir")["dir"] == "/"
    assert "busybox" in [f["name"] for f in api.get(f"{box}/files?path=/")]
    api.post(f"{box}/files/folder?path=/made&mode=755")
    info = api.get(f"{box}/files/info?path=made")
    assert info["isDir"] is True
    refused(api, 404, "POST", f"{box}/process/execute", {"command": "true"}, says="no shell")


def test_a43_without_a_shell_programs_run_and_shells_are_refused_clearly(api, lone):
    box, n = f"/toolbox/{lone}/process", f"/caisson/sandboxes/{lone}"
    refused(api, 404, "POST", f"{box}/session", {"sessionId": "s"}, says="no shell")
    refused(api, 404, "GET", f"{box}/session/s")
    refused(api, 404, "POST", f"{box}/pty", {"id": "t"}, says="no shell")
    assert api.get(f"{box}/pty") == {"sessions": []}
    status, got = api.request("POST", f"{n}/exec", {"command": "true", "detach": True})
    assert status == 404 and "no shell" in got["message"], got
    got = api.post(f"{n}/exec", {"argv": ["/busybox", "echo", "hi"]})
    assert got["stdout"] == "hi\n"
    ident = api.post(f"{n}/exec", {"argv": ["/busybox", "echo", "hi"], "detach": True})["id"]
    assert api.get(f"{n}/exec/{ident}/wait")["exitCode"] == 0


def test_a_default_image_that_is_no_archive_is_named_by_health_and_once_by_the_log(tmp_path):
    bad = tmp_path / "bad.tar"
    bad.write_bytes(b"not an archive\n" * 1000)
    with cli_daemon.Daemon(image=str(bad), start=False) as d:
        d.start(wait=False)

        def log():
            with open(d.log, encoding="utf-8") as f:
                return f.read()
        wait_for(lambda: "the default image is given up" in log())
        status, reply = d.request("GET", "/health")
        assert status == 503 and "archive" in str(reply), reply
        assert log().count("archive:") == 1, log()


def test_a_create_that_fails_is_one_warning_with_its_reason(tmp_path):
    with cli_daemon.Daemon(args=["--cache-dir", str(tmp_path)]) as d:
        for layer in os.listdir(tmp_path / "layers"):
            if len(layer) == 64:
                shutil.rmtree(tmp_path / "layers" / layer)
        sb = d.create(autoStopInterval=0)
        assert sb["state"] == "error" and sb["errorReason"], sb
        with open(d.log, encoding="utf-8") as f:
            lines = [line for line in f if sb["id"] in line and " warn " in line]
        assert len(lines) == 1, lines
        assert " api " in lines[0] and sb["errorReason"] in lines[0], lines
