"""Files through the Python SDK: streams, search, find, replace, permissions, depth, bulk errors."""
import asyncio
import gc
import io
import json
import os
import threading

import daytona as sdk
from daytona import CreateSandboxFromSnapshotParams, Daytona, FileDownloadRequest, FileUpload

from check import check, equal, finish, raises, raises_async, section


def tour_with_relative_paths(sb):
    """The way of the published file example: a project below the working directory."""
    fs, d = sb.fs, "project-files"
    check("tour: listing", isinstance(fs.list_files("."), list))
    fs.create_folder(d, "755")
    with open("local.txt", "w", encoding="utf-8") as f:
        f.write("from here")
    config = json.dumps({"name": "p", "settings": {"debug": True}}, indent=2)
    fs.upload_files([FileUpload(source="local.txt", destination=f"{d}/example.txt"),
                     FileUpload(source=config.encode(), destination=f"{d}/config.json"),
                     FileUpload(source=b'#!/bin/bash\necho "Hello"\nexit 0', destination=f"{d}/script.sh")])
    check("tour: ls", "script.sh" in sb.process.exec(f"ls -la {d}").result)
    sb.process.exec(f"chmod +x {d}/script.sh")
    equal("tour: script", sb.process.exec(f"{d}/script.sh").result, "Hello\n")
    found = fs.search_files(d, "*.json").files
    equal("tour: search", [os.path.basename(f) for f in found], ["config.json"])
    got = fs.replace_in_files([f"{d}/config.json"], '"debug": true', '"debug": false')
    check("tour: replace", len(got) == 1 and got[0].success, got)
    got = fs.download_files([FileDownloadRequest(source=f"{d}/config.json", destination="back.json"),
                             FileDownloadRequest(source=f"{d}/example.txt"),
                             FileDownloadRequest(source=f"{d}/script.sh", destination="back.sh")])
    equal("tour: errors", [g.error for g in got], [None] * 3)
    equal("tour: into a file", got[0].result, "back.json")
    equal("tour: into memory", got[1].result, b"from here")
    with open("back.json", encoding="utf-8") as f:
        equal("tour: replaced", json.load(f)["settings"]["debug"], False)
    sizes = []
    data = b"streamed-upload-content-" * 2048
    fs.upload_file_stream(io.BytesIO(data), f"{d}/streamed.bin",
                          on_progress=lambda p: sizes.append(p.bytes_sent))
    check("tour: progress up", sizes and sizes == sorted(sizes) and sizes[-1] == len(data), sizes[-3:])
    back = []
    got = b"".join(fs.download_file_stream(f"{d}/streamed.bin", on_progress=lambda p: back.append(
        (p.bytes_received, p.total_bytes))))
    equal("tour: stream back", got, data)
    check("tour: progress down", back and back[-1] == (len(data), len(data)), back[-1:])
    fs.delete_file(d, recursive=True)


def streams(sb):
    fs = sb.fs
    with open("gen", "wb") as f:
        f.write(os.urandom(64 << 16))
    with open("gen", "rb") as f:
        fs.upload_file_stream(f, "/tmp/gen")
    equal("stream of a file", fs.get_file_info("/tmp/gen").size, 64 << 16)
    raises("stream of a missing file", sdk.DaytonaError, lambda: b"".join(fs.download_file_stream("/nope")))
    stop = threading.Event()
    try:
        for _ in fs.download_file_stream("/tmp/gen", cancel_event=stop):
            stop.set()
        check("stream: cancel", False)
    except sdk.DaytonaError:
        check("stream: cancel", True)
    equal("stream: works after a cancel", len(fs.download_file("/tmp/gen")), 64 << 16)
    binary = bytes(range(256)) * 5
    fs.upload_file(binary, "/tmp/binary")
    equal("binary", fs.download_file("/tmp/binary"), binary)
    fs.upload_file(b"", "/tmp/empty")
    equal("empty file", (fs.get_file_info("/tmp/empty").size, fs.download_file("/tmp/empty")), (0, b""))
    fs.upload_file(b"deep", "/tmp/a/b/c/d/deep.txt")
    equal("parents are made", fs.download_file("/tmp/a/b/c/d/deep.txt"), b"deep")


def tree(sb):
    sb.process.exec("mkdir -p /tmp/t/sub/deeper /tmp/t/.hidden; cd /tmp/t; printf 'one hello\\ntwo\\n"
                    "hello three\\n' > a.txt; echo 'Hello' > b.txt; echo hello > sub/c.py; "
                    "printf 'hello\\0bin' > bin; echo x.y > sub/deeper/d.txt; "
                    "echo 'hello' > .hidden/e.txt; ln -s ../a.txt sub/link")


def find(sb):
    fs = sb.fs
    got = sorted((m.file, m.line, m.content) for m in fs.find_files("/tmp/t", "hello")
                 if "hidden" not in m.file and "link" not in m.file)
    equal("find", got, [("/tmp/t/a.txt", 1, "one hello"), ("/tmp/t/a.txt", 3, "hello three"),
                        ("/tmp/t/sub/c.py", 1, "hello")])
    equal("find in one file", [m.line for m in fs.find_files("/tmp/t/a.txt", "hello")], [1, 3])
    equal("find is literal", [m.file for m in fs.find_files("/tmp/t", "x.y")], ["/tmp/t/sub/deeper/d.txt"])
    equal("find: no pattern language", fs.find_files("/tmp/t", "h.llo"), [])
    equal("find: nothing", fs.find_files("/tmp/t", "no such words"), [])
    fs.upload_file("caf\u00e9 \u65e5\u672c\n".encode(), "/tmp/t/u.txt")
    equal("find: unicode", [m.content for m in fs.find_files("/tmp/t", "\u65e5")], ["caf\u00e9 \u65e5\u672c"])
    raises("find: missing folder", sdk.DaytonaNotFoundError, lambda: fs.find_files("/tmp/none", "x"))


def search(sb):
    def names(pattern, where="/tmp/t"):
        return sorted(f for f in sb.fs.search_files(where, pattern).files if "hidden" not in f)
    equal("search", names("*.txt"), ["/tmp/t/a.txt", "/tmp/t/b.txt", "/tmp/t/sub/deeper/d.txt",
                                     "/tmp/t/u.txt"])
    equal("search: question mark", names("?.py"), ["/tmp/t/sub/c.py"])
    equal("search: set", names("[ab].txt"), ["/tmp/t/a.txt", "/tmp/t/b.txt"])
    equal("search: directories too", names("deep*"), ["/tmp/t/sub/deeper"])
    equal("search: none", names("nothing*"), [])
    equal("search: relative", [os.path.basename(f) for f in names("a.txt", "../../tmp/t")], ["a.txt"])
    raises("search: missing folder", sdk.DaytonaNotFoundError, lambda: names("*", "/tmp/none"))


def replace(sb):
    fs = sb.fs
    fs.upload_file(b"old old\nold $1 \\1\n", "/tmp/t/r.txt")
    sb.process.exec("chmod 0640 /tmp/t/r.txt")
    got = fs.replace_in_files(["/tmp/t/r.txt", "/tmp/t/missing", "/tmp/t/b.txt"], "old", "n\u00e9w & \\0")
    equal("replace: results", [(g.file, bool(g.success), bool(g.error)) for g in got],
          [("/tmp/t/r.txt", True, False), ("/tmp/t/missing", False, True), ("/tmp/t/b.txt", True, False)])
    want = "n\u00e9w & \\0 n\u00e9w & \\0\nn\u00e9w & \\0 $1 \\1\n".encode()
    equal("replace: literal", fs.download_file("/tmp/t/r.txt"), want)
    equal("replace: mode kept", fs.get_file_info("/tmp/t/r.txt").permissions, "0640")
    equal("replace: no match changes nothing", fs.download_file("/tmp/t/b.txt"), b"Hello\n")
    got = fs.replace_in_files(["/etc/passwd"], "root", "toor")
    check("replace: refused is told", not got[0].success and bool(got[0].error), got)


def depth(sb):
    fs = sb.fs
    one = sorted(e.name for e in fs.list_files("/tmp/t"))
    equal("list: one level", one, [".hidden", "a.txt", "b.txt", "bin", "r.txt", "sub", "u.txt"])
    two = {e.path for e in fs.list_files("/tmp/t", depth=2)}
    check("list: two levels", "/tmp/t/sub/c.py" in two and "/tmp/t/sub/deeper" in two
          and "/tmp/t/sub/deeper/d.txt" not in two, two)
    three = {e.path for e in fs.list_files("/tmp/t", depth=9)}
    check("list: all levels", "/tmp/t/sub/deeper/d.txt" in three, three)
    raises("list: missing", sdk.DaytonaNotFoundError, lambda: fs.list_files("/tmp/none"), status=404)


def permissions(sb):
    fs = sb.fs
    fs.upload_file(b"x", "/tmp/p")
    fs.set_file_permissions("/tmp/p", mode="0711")
    info = fs.get_file_info("/tmp/p")
    equal("permissions: mode", (info.mode, info.permissions), ("-rwx--x--x", "0711"))
    fs.set_file_permissions("/tmp/p", group="daytona")
    equal("permissions: group by name", fs.get_file_info("/tmp/p").group, "1000")
    raises("permissions: owner needs root", sdk.DaytonaForbiddenError,
           lambda: fs.set_file_permissions("/tmp/p", owner="root"), status=403)
    raises("permissions: unknown owner", sdk.DaytonaError,
           lambda: fs.set_file_permissions("/tmp/p", owner="no-such-user"))
    raises("permissions: bad mode", sdk.DaytonaBadRequestError,
           lambda: fs.set_file_permissions("/tmp/p", mode="999"), status=400)
    raises("permissions: missing", sdk.DaytonaNotFoundError,
           lambda: fs.set_file_permissions("/tmp/none", mode="600"), status=404)


def errors_of_single_files(sb):
    """b13: ten files, three of them to places that can't be."""
    fs = sb.fs
    fs.upload_file(b"f", "/tmp/file")
    bad = ["/etc/nope", "/proc/nope", "/tmp/file/below"]
    files = [FileUpload(source=b"%d" % i, destination=f"/tmp/bulk/{i}") for i in range(7)]
    files[2:2] = [FileUpload(source=b"bad", destination=p) for p in bad]
    e = raises("b13: bulk upload", sdk.DaytonaError, lambda: fs.upload_files(files))
    check("b13: names the files", e and all(p in str(e) for p in bad), e)
    equal("b13: the others are there", sorted(f.name for f in fs.list_files("/tmp/bulk")),
          [str(i) for i in range(7)])
    got = fs.download_files([FileDownloadRequest(source=p) for p in
                             ("/tmp/bulk/1", "/nope", "/tmp/bulk", "/tmp/bulk/2", "/etc/shadow")])
    equal("bulk download: good ones", (got[0].result, got[3].result), (b"1", b"2"))
    equal("bulk download: codes", [g.error_details and g.error_details.code for g in got],
          [None, "FILE_NOT_FOUND", got[2].error_details and got[2].error_details.code, None,
           "FILE_ACCESS_DENIED"])
    check("bulk download: a folder is no file", bool(got[2].error), got[2])


def client_dropped():
    """A sandbox goes on to transfer files when the client object it came from is collected."""
    sb = Daytona().create(CreateSandboxFromSnapshotParams(auto_stop_interval=0))
    gc.collect()
    sb.fs.upload_file(b"payload", "/tmp/dropped")
    equal("dropped client: bytes", sb.fs.download_file("/tmp/dropped"), b"payload")
    equal("dropped client: stream", b"".join(sb.fs.download_file_stream("/tmp/dropped")), b"payload")
    sb.delete()


async def asynchronous_client():
    async with sdk.AsyncDaytona() as d:
        sb = await d.create(CreateSandboxFromSnapshotParams(auto_stop_interval=0))
        fs = sb.fs
        data = os.urandom(2 << 20)
        sizes = []
        await fs.upload_file_stream(io.BytesIO(data), "up.bin", on_progress=lambda p: sizes.append(
            p.bytes_sent))
        equal("async: progress", sizes[-1], len(data))
        got = b""
        async for chunk in await fs.download_file_stream("up.bin"):
            got += chunk
        equal("async: stream", got, data)
        await fs.upload_files([FileUpload(source=b"a hello", destination="d/a.txt"),
                               FileUpload(source=b"b", destination="d/b.py")])
        equal("async: search", [os.path.basename(f) for f in (await fs.search_files("d", "*.py")).files],
              ["b.py"])
        equal("async: find", [m.line for m in await fs.find_files("d", "hello")], [1])
        check("async: replace", (await fs.replace_in_files(["d/a.txt"], "hello", "bye"))[0].success)
        equal("async: replaced", await fs.download_file("d/a.txt"), b"a bye")
        await fs.set_file_permissions("d/a.txt", mode="600")
        equal("async: permissions", (await fs.get_file_info("d/a.txt")).permissions, "0600")
        await fs.move_files("d/a.txt", "d/moved")
        equal("async: list", sorted(e.name for e in await fs.list_files("d")), ["b.py", "moved"])
        await raises_async("async: missing", sdk.DaytonaNotFoundError,
                           lambda: fs.get_file_info("d/a.txt"), status=404)
        await fs.delete_file("d", recursive=True)
        await asyncio.gather(*(fs.upload_file(b"%d" % i, f"many/{i}") for i in range(10)))
        got = await asyncio.gather(*(fs.download_file(f"many/{i}") for i in range(10)))
        equal("async: ten at once", got, [b"%d" % i for i in range(10)])
        await sb.delete()


def main():
    d = Daytona()
    sb = d.create(CreateSandboxFromSnapshotParams(language="python", auto_stop_interval=0))
    section(tour_with_relative_paths, sb)
    section(streams, sb)
    section(tree, sb)
    for fn in (find, search, replace, depth, permissions, errors_of_single_files):
        section(fn, sb)
    sb.delete()
    section(client_dropped)
    section(asynchronous_client)
    finish(60)


main()
