"""The Python SDK, used as its users do: sandboxes, life, one-shot execs, files, errors, events."""
import asyncio
import os
import threading
import time
import uuid

import daytona as sdk
from daytona import (CreateSandboxFromImageParams, CreateSandboxFromSnapshotParams, Daytona,
                     DaytonaConfig, FileDownloadRequest, FileUpload, ListSandboxesQuery)

from check import check, equal, finish, raises, section


def create_with_every_option(d):
    given = CreateSandboxFromSnapshotParams(
        name="py-options", snapshot="caisson-medium", language="python", os_user="root",
        env_vars={"A": "1", "U": "\u65e5\u672c \u2615"}, labels={"team": "\u00fc", "n": "1"}, public=True,
        auto_stop_interval=30, auto_archive_interval=100, auto_delete_interval=200,
        ttl_minutes=60, network_block_all=True)
    began = time.monotonic()
    sb = d.create(given)
    took = time.monotonic() - began
    equal("options: state", sb.state, sdk.SandboxState.STARTED)
    check("options: no extra poll", took < 5, took)
    equal("options: name", sb.name, "py-options")
    equal("options: snapshot", sb.snapshot, "caisson-medium")
    equal("options: user", sb.user, "root")
    equal("options: env", sb.env, {"A": "1", "U": "\u65e5\u672c \u2615"})
    equal("options: label", sb.labels["team"], "\u00fc")
    equal("options: language label", sb.labels["code-toolbox-language"], "python")
    equal("options: public", sb.public, True)
    equal("options: block", sb.network_block_all, True)
    equal("options: stop", sb.auto_stop_interval, 30)
    equal("options: archive", sb.auto_archive_interval, 100)
    equal("options: delete", sb.auto_delete_interval, 200)
    check("options: end", bool(sb.auto_destroy_at), sb.auto_destroy_at)
    equal("options: resources", (sb.cpu, sb.memory, sb.disk, sb.gpu), (2, 4, 8, 0))
    equal("options: env inside", sb.process.exec('printf "%s" "$U"').result, "\u65e5\u672c \u2615")
    equal("options: user inside", sb.process.exec("id -un").result.strip(), "root")
    equal("get by id", d.get(sb.id).name, "py-options")
    equal("get by name", d.get("py-options").id, sb.id)
    raises("duplicate name", sdk.DaytonaConflictError, lambda: d.create(
        CreateSandboxFromSnapshotParams(name="py-options")), status=409)
    sb.delete(wait=True)
    raises("deleted is gone", sdk.DaytonaNotFoundError, lambda: d.get(sb.id), status=404)


def list_by_label(d):
    mark = uuid.uuid4().hex
    boxes = [d.create(CreateSandboxFromSnapshotParams(labels={"mark": mark, "i": str(i)}))
             for i in range(3)]
    got = [s.id for s in d.list(ListSandboxesQuery(labels={"mark": mark}, limit=2))]
    equal("list: all pages", sorted(got), sorted(s.id for s in boxes))
    got = [s.id for s in d.list(ListSandboxesQuery(labels={"mark": mark, "i": "1"}))]
    equal("list: two labels", got, [boxes[1].id])
    got = [s.id for s in d.list(ListSandboxesQuery(labels={"mark": mark},
                                                   states=[sdk.SandboxState.STOPPED]))]
    equal("list: states", got, [])
    equal("set labels", boxes[0].set_labels({"mark": "other"}), {"mark": "other"})
    equal("list: after relabel", len(list(d.list(ListSandboxesQuery(labels={"mark": mark})))), 2)
    for sb in boxes:
        d.delete(sb)


def life(d):
    sb = d.create()
    equal("defaults", (sb.cpu, sb.memory, sb.disk), (1, 1, 3))
    sb.fs.upload_file(b"kept", "kept.txt")
    began = time.monotonic()
    sb.stop()
    equal("stopped", sb.state, sdk.SandboxState.STOPPED)
    sb.start()
    equal("started again", sb.state, sdk.SandboxState.STARTED)
    check("stop and start in time", time.monotonic() - began < 15, time.monotonic() - began)
    equal("file kept", sb.fs.download_file("kept.txt"), b"kept")
    sb.set_autostop_interval(7)
    equal("autostop", sb.auto_stop_interval, 7)
    sb.set_auto_archive_interval(70)
    equal("autoarchive", sb.auto_archive_interval, 70)
    sb.set_auto_delete_interval(700)
    equal("autodelete", sb.auto_delete_interval, 700)
    sb.set_ttl(5)
    sb.refresh_activity()
    sb.refresh_data()
    check("ttl", bool(sb.auto_destroy_at), sb.auto_destroy_at)
    equal("refreshed", sb.auto_stop_interval, 7)
    equal("home", sb.get_user_home_dir(), "/home/daytona")
    equal("work dir", sb.get_work_dir(), "/home/daytona")
    m = sb.get_metrics_latest()
    check("metrics", m.cpu_count == 1 and m.mem_total == 1 << 30, m)
    sb.update_env({"LATER": "yes"})
    equal("env update", sb.process.exec("echo $LATER").result, "yes\n")
    sb.stop(force=True)
    equal("forced stop", sb.state, sdk.SandboxState.STOPPED)
    raises("exec when stopped", sdk.DaytonaConflictError, lambda: sb.process.exec("true"), status=409)
    sb.delete()


def execute(sb):
    run = sb.process.exec
    equal("exec", run("echo hi").result, "hi\n")
    equal("exec: artifacts", run("echo hi").artifacts.stdout, "hi\n")
    equal("exec: code", run("exit 42").exit_code, 42)
    equal("exec: 127", run("no-such-program-x").exit_code, 127)
    equal("exec: both streams", run("echo a; echo b >&2").result, "a\nb\n")
    equal("exec: cwd", run("pwd", cwd="/tmp").result, "/tmp\n")
    equal("exec: env", run("echo $X-$Y", env={"X": "1 2", "Y": "\u2615"}).result, "1 2-\u2615\n")
    equal("exec: unicode", run("echo h\u00e9 \u65e5\u672c").result, "h\u00e9 \u65e5\u672c\n")
    began = time.monotonic()
    raises("exec: timeout", sdk.DaytonaTimeoutError, lambda: run("sleep 30", timeout=1), status=408,
           code="PROCESS_EXECUTION_TIMEOUT", source="DAYTONA_DAEMON")
    check("exec: timeout in time", time.monotonic() - began < 4, time.monotonic() - began)
    out = run("head -c 10485760 /dev/zero | tr '\\0' x", timeout=60).result
    check("exec: 10 MB", out == "x" * 10485760, len(out))
    raises("exec: empty", sdk.DaytonaBadRequestError, lambda: run(""), status=400)
    raises("exec: bad env", sdk.DaytonaBadRequestError, lambda: run("true", env={"1X": "y"}))
    equal("exec: stdin is empty", run("cat; echo end").result, "end\n")


def code_run(d):
    programs = {
        "python": ("import sys\nprint(6 * 7, sys.argv[1])", "raise SystemExit(3)"),
        "javascript": ("console.log(6 * 7, process.argv[2])", "process.exit(3)"),
        "typescript": ("const n: number = 6\nconsole.log(n * 7, process.argv[2])",
                       "process.exit(3 as number)"),
    }
    for language, (hello, leave) in programs.items():
        sb = d.create(CreateSandboxFromSnapshotParams(language=language))
        got = sb.process.code_run(hello, sdk.CodeRunParams(argv=["arg"], env={"A": "b"}))
        equal(f"{language}: result", got.result, "42 arg\n")
        equal(f"{language}: code", got.exit_code, 0)
        equal(f"{language}: exit", sb.process.code_run(leave).exit_code, 3)
        if language == "python":
            plot = ("import matplotlib.pyplot as plt\nplt.plot([1, 2], [3, 4])\nplt.title('T')\n"
                    "plt.show()\nprint('done')")
            got = sb.process.code_run(plot, timeout=120)
            equal("chart: text", got.result, "done\n")
            chart = got.artifacts.charts[0]
            equal("chart: class", type(chart).__name__, "LineChart")
            equal("chart: title", chart.title, "T")
            equal("chart: points", chart.elements[0].points, [[1, 3], [2, 4]])
            check("chart: picture", (chart.png or "").startswith("iVBOR"), chart.png and 1)
            # This method lets the generated client's exception through.
            try:
                check("code-run: timeout", False, sb.process.code_run("while True: pass", timeout=1))
            except Exception as e:  # noqa: BLE001
                equal("code-run: timeout", getattr(e, "status", getattr(e, "status_code", 0)), 408)
            got = sb.process.code_run("1/0")
            check("code-run: traceback", "ZeroDivisionError" in got.result and got.exit_code == 1, got)
        sb.delete()


def files(sb):
    fs = sb.fs
    odd = "/tmp/h\u00e9llo \u65e5\u672c \"q\";.txt"
    data = os.urandom(5000)
    fs.upload_file(data, odd)
    equal("file: odd name", fs.download_file(odd), data)
    info = fs.get_file_info(odd)
    equal("file: size", info.size, 5000)
    equal("file: name", info.name, odd.rsplit("/", 1)[1])
    check("file: owner", info.owner == "1000" and info.permissions == "0644", info)
    fs.upload_files([FileUpload(source=b"%d" % i, destination=f"/tmp/many/{i}.txt")
                     for i in range(5)])
    names = sorted(e.name for e in fs.list_files("/tmp/many"))
    equal("files: many", names, [f"{i}.txt" for i in range(5)])
    got = fs.download_files([FileDownloadRequest(source="/tmp/many/3.txt"),
                             FileDownloadRequest(source="/nope"),
                             FileDownloadRequest(source=odd)])
    equal("files: bulk", got[0].result, b"3")
    check("files: bulk error", bool(got[1].error), got[1])
    equal("files: bulk code", got[1].error_details.code if got[1].error_details else None,
          "FILE_NOT_FOUND")
    equal("files: bulk odd", got[2].result, data)
    raises("file: missing", sdk.DaytonaNotFoundError, lambda: fs.download_file("/nope"), status=404,
           code="FILE_NOT_FOUND")
    raises("file: info of missing", sdk.DaytonaNotFoundError, lambda: fs.get_file_info("/nope"),
           status=404, code="FILE_NOT_FOUND", source="DAYTONA_DAEMON")
    raises("file: forbidden", sdk.DaytonaForbiddenError, lambda: fs.delete_file("/etc/passwd"),
           status=403, code="FILE_ACCESS_DENIED")
    fs.create_folder("/tmp/made/deep", "750")
    equal("folder", fs.get_file_info("/tmp/made/deep").permissions, "0750")
    check("folder: isDir", fs.get_file_info("/tmp/made/deep").is_dir)
    fs.move_files(odd, "/tmp/made/moved")
    equal("moved", fs.download_file("/tmp/made/moved"), data)
    fs.set_file_permissions("/tmp/made/moved", mode="600")
    equal("permissions", fs.get_file_info("/tmp/made/moved").permissions, "0600")
    raises("delete folder needs recursive", sdk.DaytonaBadRequestError,
           lambda: fs.delete_file("/tmp/made"), status=400)
    fs.delete_file("/tmp/made", recursive=True)
    raises("deleted", sdk.DaytonaNotFoundError, lambda: fs.get_file_info("/tmp/made"))
    raises("upload refused", sdk.DaytonaError, lambda: fs.upload_file(b"x", "/etc/nope"))


def big_files(sb):
    size, block = 100 << 20, os.urandom(1 << 20)
    with open("big", "wb") as f:
        for _ in range(size >> 20):
            f.write(block)
    sb.fs.upload_file("big", "/tmp/big")
    import hashlib
    want = hashlib.sha256(block * (size >> 20)).hexdigest()
    equal("100 MB up", sb.process.exec("sha256sum /tmp/big").result.split()[0], want)
    sb.fs.download_file("/tmp/big", "back")
    h = hashlib.sha256()
    with open("back", "rb") as f:
        while chunk := f.read(1 << 20):
            h.update(chunk)
    equal("100 MB down", h.hexdigest(), want)
    total = sum(len(c) for c in sb.fs.download_file_stream("/tmp/big"))
    equal("100 MB stream", total, size)
    sb.fs.delete_file("/tmp/big")


def errors(d):
    raises("unknown sandbox", sdk.DaytonaNotFoundError, lambda: d.get(str(uuid.uuid4())), status=404)
    wrong = Daytona(DaytonaConfig(api_key="dtn_" + "0" * 64, api_url=os.environ["DAYTONA_API_URL"]))
    raises("wrong key", sdk.DaytonaAuthenticationError, lambda: list(wrong.list()), status=401)
    raises("unknown snapshot", sdk.DaytonaBadRequestError, lambda: d.create(
        CreateSandboxFromSnapshotParams(snapshot="nope")), status=400)
    e = raises("bad name", sdk.DaytonaBadRequestError, lambda: d.create(
        CreateSandboxFromSnapshotParams(name="a/b")), status=400)
    check("bad name: text", e and "name" in e.message, e)
    raises("image form is refused clearly", sdk.DaytonaError, lambda: d.create(
        CreateSandboxFromImageParams(image="debian:12")), status=501)
    equal("snapshot get", d.snapshot.get("caisson-large").cpu, 4)
    check("snapshot list", d.snapshot.list().total >= 3)
    raises("snapshot unknown", sdk.DaytonaNotFoundError, lambda: d.snapshot.get("nope"), status=404)


def events(d):
    """A wait that only an event can end early: the SDK polls each second else."""
    sb = d.create()
    twin = d.get(sb.id)
    seen = []
    t = threading.Thread(target=lambda: (twin.wait_for_sandbox_stop(timeout=20),
                                         seen.append(time.monotonic())))
    t.start()
    time.sleep(0.3)
    sb.stop()
    done = time.monotonic()
    t.join(20)
    check("event ends the wait", bool(seen) and seen[0] - done < 0.6, seen and seen[0] - done)
    sb.delete()


async def async_client():
    """The asynchronous client speaks through another HTTP library."""
    async with sdk.AsyncDaytona() as d:
        sb = await d.create(CreateSandboxFromSnapshotParams(labels={"async": "1"}))
        equal("async: state", sb.state, sdk.SandboxState.STARTED)
        equal("async: exec", (await sb.process.exec("echo $((6*7))")).result, "42\n")
        got = await asyncio.gather(*(sb.process.exec(f"sleep 0.2; echo {i}") for i in range(10)))
        equal("async: ten at once", [r.result for r in got], [f"{i}\n" for i in range(10)])
        equal("async: code", (await sb.process.code_run("print('hi')")).result, "hi\n")
        data = os.urandom(3 << 20)
        await sb.fs.upload_files([FileUpload(source=data, destination="/tmp/a \u65e5.bin"),
                                  FileUpload(source=b"2", destination="/tmp/b")])
        equal("async: file", await sb.fs.download_file("/tmp/a \u65e5.bin"), data)
        equal("async: second file", await sb.fs.download_file("/tmp/b"), b"2")
        try:
            await sb.fs.download_file("/nope")
            check("async: missing file", False)
        except sdk.DaytonaNotFoundError as e:
            equal("async: missing file", e.code, "FILE_NOT_FOUND")
        await sb.stop()
        equal("async: stopped", sb.state, sdk.SandboxState.STOPPED)
        await sb.start()
        equal("async: started", sb.state, sdk.SandboxState.STARTED)
        found = [s.id async for s in d.list(ListSandboxesQuery(labels={"async": "1"}))]
        equal("async: list", found, [sb.id])
        await sb.delete()


def with_async_client():
    asyncio.run(async_client())


def main():
    d = Daytona()
    section(create_with_every_option, d)
    section(list_by_label, d)
    section(life, d)
    section(code_run, d)
    sb = d.create(CreateSandboxFromSnapshotParams(auto_stop_interval=0))
    for fn in (execute, files, big_files):
        section(fn, sb)
    sb.delete()
    section(errors, d)
    section(events, d)
    section(with_async_client)
    finish(60)


main()
