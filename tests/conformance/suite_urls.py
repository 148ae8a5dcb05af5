"""Signed file URLs of the Python SDK, used by a client that has no key."""
import time
import urllib.error
import urllib.request

from daytona import CreateSandboxFromSnapshotParams, Daytona

from check import check, equal, finish, section


def http(url, method="GET", body=None, kind=None):
    request = urllib.request.Request(url, data=body, method=method,
                                     headers={"Content-Type": kind} if kind else {})
    try:
        with urllib.request.urlopen(request, timeout=20) as reply:
            return reply.status, reply.read(), dict(reply.headers)
    except urllib.error.HTTPError as e:
        return e.code, e.read(), dict(e.headers)


def form(data):
    return (b'--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n' + data +
            b"\r\n--b--\r\n", "multipart/form-data; boundary=b")


def download(sb):
    odd = "/tmp/with spaces/h\u00e9llo & ?.txt"
    sb.fs.upload_file(b"by url", odd)
    url = sb.download_url(odd)
    check("url: parameters", "signature=v1_" in url and "expires=" in url, url)
    status, body, head = http(url)
    equal("url: download", (status, body), (200, b"by url"))
    status, body, head = http(url, "HEAD")
    equal("url: head", (status, body, head.get("Content-Length")), (200, b"", "6"))
    equal("url: never ends", http(sb.download_url(odd, ttl_seconds=0))[:2], (200, b"by url"))
    status, _, _ = http(sb.download_url("/nope"))
    equal("url: missing file", status, 404)


def refusals(sb):
    sb.fs.upload_file(b"secret", "/tmp/f")
    sb.fs.upload_file(b"other", "/tmp/g")
    url = sb.download_url("/tmp/f")
    forged = {
        "other path": url.replace("path=%2Ftmp%2Ff", "path=%2Ftmp%2Fg"),
        "longer life": url.replace("expires=", "expires=9"),
        "other signature": url[:-3] + ("aaa" if not url.endswith("aaa") else "bbb"),
        "no signature": url.split("&signature=")[0].split("?signature=")[0],
        "other route": url.replace("/files/download", "/files/info"),
        "upload with it": url.replace("/files/download", "/files/upload-v2"),
    }
    for what, bad in forged.items():
        if bad == url:
            check(f"url: {what} was not made", False, url)
        status, body, _ = http(bad, "POST" if "upload" in what else "GET",
                               b"x" if "upload" in what else None)
        check(f"url: {what}", status in (401, 403) and b"secret" not in body, (status, body[:200]))
    short = sb.download_url("/tmp/f", ttl_seconds=1)
    equal("url: before its end", http(short)[0], 200)
    time.sleep(2.1)
    check("url: after its end", http(short)[0] in (401, 403), http(short)[:2])


def upload(sb):
    url = sb.upload_url("/tmp/new/by-url")
    check("url: upload parameters", "signature=v1_" in url, url)
    status, body, _ = http(url, "POST", *form(b"sent \0 by form"))
    equal("url: upload of a form", status, 200)
    equal("url: its bytes", sb.fs.download_file("/tmp/new/by-url"), b"sent \0 by form")
    status, _, _ = http(sb.upload_url("/tmp/raw"), "POST", b"raw", "application/octet-stream")
    equal("url: raw upload", (status, sb.fs.download_file("/tmp/raw")), (200, b"raw"))


def rotation(sb):
    sb.fs.upload_file(b"x", "/tmp/x")
    old = sb.download_url("/tmp/x")
    equal("rotate: before", http(old)[0], 200)
    sb.rotate_signing_key()
    check("rotate: old URL", http(old)[0] in (401, 403), http(old)[:2])
    equal("rotate: new URL", http(sb.download_url("/tmp/x"))[:2], (200, b"x"))
    sb.stop()
    check("stopped: told", http(sb.download_url("/tmp/x"))[0] in (400, 409, 503))
    sb.start()
    equal("started again: same URLs", http(sb.download_url("/tmp/x"))[:2], (200, b"x"))


def main():
    sb = Daytona().create(CreateSandboxFromSnapshotParams(auto_stop_interval=0))
    for fn in (download, refusals, upload, rotation):
        section(fn, sb)
    sb.delete()
    finish(20)


main()
