"""Language servers through the Python SDK: symbols and completions, relative projects and URIs."""
import asyncio

import daytona as sdk
from daytona import CreateSandboxFromSnapshotParams, Daytona, LspCompletionPosition, LspLanguageId

from check import check, equal, finish, raises, section

PYTHON = b'''import os


class Greeter:
    def __init__(self, name):
        self.name = name

    def greet(self):
        return "hello " + self.name


def main():
    g = Greeter("x")
    g.
'''
TYPESCRIPT = b'''class Base {
  name: string = 'base'
  hello(): string { return this.name }
}

class E extends Base {
  extra: number = 1
}

var obj1 = new Base();
obj1.
'''


def names(symbols):
    return [s.name for s in symbols]


def before_start(sb):
    lsp = sb.create_lsp_server("python", "py")
    raises("not started: open", sdk.DaytonaLspServerNotInitializedError, lambda: lsp.did_open("py/a.py"),
           status=400, code="LSP_SERVER_NOT_INITIALIZED", source="DAYTONA_DAEMON")
    raises("not started: symbols", sdk.DaytonaLspServerNotInitializedError,
           lambda: lsp.document_symbols("py/a.py"), status=400)
    raises("unknown language", sdk.DaytonaError, lambda: sb.create_lsp_server("cobol", "py").start())
    raises("no project", sdk.DaytonaError, lambda: sb.create_lsp_server("python", "/no/such").start())


def python(sb):
    sb.fs.create_folder("py", "755")
    sb.fs.upload_file(PYTHON, "py/a.py")
    sb.fs.upload_file(b"def helper():\n    return 1\n", "py/b.py")
    lsp = sb.create_lsp_server(LspLanguageId.PYTHON, "py")
    lsp.start()
    lsp.start()
    lsp.did_open("py/a.py")
    symbols = lsp.document_symbols("py/a.py")
    check("python: symbols", {"Greeter", "greet", "main"} <= set(names(symbols)), names(symbols))
    s = next(x for x in symbols if x.name == "Greeter")
    check("python: place", s.kind == 5 and s.location.uri.endswith("a.py")
          and s.location.range.start.line == 3, s)
    check("python: workspace", "Greeter" in names(lsp.workspace_symbols("Greet")))
    check("python: other files of it", "helper" in names(lsp.sandbox_symbols("helper")))
    got = lsp.completions("py/a.py", LspCompletionPosition(line=13, character=6))
    labels = [i.label.split("(")[0] for i in got.items]
    check("python: completions", "greet" in labels and "name" in labels, labels[:20])
    lsp.did_close("py/a.py")
    lsp.stop()
    raises("python: after stop", sdk.DaytonaLspServerNotInitializedError,
           lambda: lsp.document_symbols("py/a.py"), status=400)
    equal("python: no server is left", sb.process.exec("pgrep -fc '[p]ylsp'").result, "0\n")


def typescript(sb):
    sb.fs.create_folder("ts", "755")
    sb.fs.upload_file(b"{}", "ts/tsconfig.json")
    sb.fs.upload_file(TYPESCRIPT, "ts/index.ts")
    found = sb.fs.find_files("ts", "var obj1 = new Base();")
    equal("typescript: found", len(found), 1)
    path = found[0].file
    lsp = sb.create_lsp_server(LspLanguageId.TYPESCRIPT, "ts")
    lsp.start()
    lsp.did_open(path)
    symbols = lsp.document_symbols(path)
    check("typescript: symbols", {"Base", "E", "obj1"} <= set(names(symbols)), names(symbols))
    at = LspCompletionPosition(line=10, character=5)

    def labels():
        return [i.label for i in lsp.completions(path, at).items]
    first = labels()
    check("typescript: completions", "hello" in first and "extra" not in first, first[:20])
    sb.fs.replace_in_files([path], "var obj1 = new Base();", "var obj1 = new E();")
    lsp.did_close(path)
    lsp.did_open(path)
    check("typescript: after a change", "extra" in labels(), "no extra")
    check("typescript: workspace", "Base" in names(lsp.workspace_symbols("Base")))
    lsp.stop()


def crash(sb):
    lsp = sb.create_lsp_server("python", "/home/daytona/py")
    lsp.start()
    lsp.did_open("/home/daytona/py/a.py")
    check("crash: alive", bool(lsp.document_symbols("/home/daytona/py/a.py")))
    sb.process.exec("pkill -9 -f '[p]ylsp'; true")
    raises("crash: told", sdk.DaytonaError, lambda: lsp.document_symbols("/home/daytona/py/a.py"))
    lsp.start()
    lsp.did_open("/home/daytona/py/a.py")
    check("crash: starts again", bool(lsp.document_symbols("/home/daytona/py/a.py")))
    lsp.stop()


async def asynchronous_client():
    async with sdk.AsyncDaytona() as d:
        sb = await d.create(CreateSandboxFromSnapshotParams(auto_stop_interval=0))
        await sb.fs.upload_file(PYTHON, "p/a.py")
        lsp = sb.create_lsp_server("python", "p")
        await lsp.start()
        await lsp.did_open("p/a.py")
        got = await asyncio.gather(*(lsp.document_symbols("p/a.py") for _ in range(5)))
        equal("async: five at once", [("Greeter" in names(g)) for g in got], [True] * 5)
        await lsp.did_close("p/a.py")
        await lsp.stop()
        await sb.delete()


def main():
    sb = Daytona().create(CreateSandboxFromSnapshotParams(auto_stop_interval=0))
    for fn in (before_start, python, typescript, crash):
        section(fn, sb)
    sb.delete()
    section(asynchronous_client)
    finish(20)


main()
