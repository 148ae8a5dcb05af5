"""The code interpreter through the Python SDK: contexts, callbacks, errors, time limits."""
import asyncio
import threading
import time

import daytona as sdk
from daytona import CreateSandboxFromSnapshotParams, Daytona

from check import check, equal, finish, raises, raises_async, section


def state(sb):
    run = sb.code_interpreter.run_code
    got = run("counter = 1\nprint(f'counter = {counter}')")
    equal("first call", (got.stdout, got.stderr, got.error), ("counter = 1\n", "", None))
    got = run("counter += 1\nprint(counter)")
    equal("state persists", got.stdout, "2\n")
    got = run("import sys\ndef f(x):\n    return x * 2\n\nclass C:\n    v = 3")
    equal("definitions are silent", (got.stdout, got.error), ("", None))
    equal("definitions persist", run("print(f(C.v))").stdout, "6\n")
    got = run("import sys; print('o'); print('e', file=sys.stderr); sys.stdout.write('no end')")
    equal("two streams", (got.stdout, got.stderr), ("o\nno end", "e\n"))
    equal("unicode", run("print('h\u00e9 \u65e5\u672c \u2615')").stdout, "h\u00e9 \u65e5\u672c \u2615\n")
    equal("programs are captured", run("import os; os.system('echo child')").stdout, "child\n")
    equal("bare descriptors are captured", run("import os; n = os.write(1, b'raw\\n')").stdout, "raw\n")
    equal("empty output", run("pass").stdout, "")
    equal("work dir", run("import os; print(os.getcwd())").stdout, "/home/daytona\n")
    big = run("print('x' * 3000000)")
    equal("3 MB", (len(big.stdout), big.error), (3000001, None))


def callbacks(sb):
    out, err, errors, times = [], [], [], []

    def on_out(m):
        out.append(m.output)
        times.append(time.monotonic())
    got = sb.code_interpreter.run_code(
        "import sys, time\nfor i in range(3):\n    print(i, flush=True)\n    time.sleep(0.3)\n"
        "print('w', file=sys.stderr)\nraise ValueError('boom')",
        on_stdout=on_out, on_stderr=lambda m: err.append(m.output), on_error=errors.append)
    equal("callbacks: stdout", "".join(out), "0\n1\n2\n")
    check("callbacks: as it comes", times and times[-1] - times[0] > 0.4, times)
    equal("callbacks: stderr", "".join(err), "w\n")
    equal("callbacks: error", [(e.name, e.value) for e in errors], [("ValueError", "boom")])
    check("callbacks: traceback", errors and "ValueError: boom" in errors[0].traceback, errors)
    equal("callbacks: result too", (got.stdout, got.error.name), ("0\n1\n2\n", "ValueError"))


def errors(sb):
    run = sb.code_interpreter.run_code
    for code, name in (("1/0", "ZeroDivisionError"), ("def incomplete(", "SyntaxError"),
                       ("undefined_name", "NameError"), ("import no_such_module", "ModuleNotFoundError"),
                       ("raise KeyError('k')", "KeyError"), ("assert False, 'why'", "AssertionError")):
        got = run(code)
        check(f"error: {name}", got.error and got.error.name == name, got)
    equal("alive after errors", run("print('ok')").stdout, "ok\n")
    got = run("class Odd(Exception):\n    def __str__(self):\n        raise RuntimeError\nraise Odd()")
    check("error that has no words", got.error and got.error.name == "Odd", got)
    got = run("x = input()")
    check("input is at its end", got.error and got.error.name == "EOFError", got)


def environment(sb):
    run = sb.code_interpreter.run_code
    equal("env", run("import os; print(os.environ['A'])", envs={"A": "1 \u65e5"}).stdout, "1 \u65e5\n")
    equal("env of one call only", run("import os; print(os.environ.get('A'))").stdout, "None\n")


def contexts(sb):
    ci = sb.code_interpreter
    ctx = ci.create_context()
    check("context: fields", bool(ctx.id) and ctx.active and ctx.language == "python"
          and ctx.cwd == "/home/daytona", ctx)
    other = ci.create_context(cwd="/tmp")
    equal("context: cwd", ci.run_code("import os; print(os.getcwd())", context=other).stdout, "/tmp\n")
    ids = [c.id for c in ci.list_contexts()]
    check("context: listed", ctx.id in ids and other.id in ids, ids)
    equal("context: set", ci.run_code("value = 'mine'\nprint(value)", context=ctx).stdout, "mine\n")
    equal("context: kept", ci.run_code("print(value)", context=ctx).stdout, "mine\n")
    for where in (other, None):
        got = ci.run_code("print(value)", context=where)
        check("context: apart", got.error and got.error.name == "NameError", got)
    ci.delete_context(ctx)
    check("context: deleted", ctx.id not in [c.id for c in ci.list_contexts()])
    raises("context: delete of none", sdk.DaytonaNotFoundError, lambda: ci.delete_context(ctx),
           status=404)
    raises("context: run in none", sdk.DaytonaError, lambda: ci.run_code("1", context=ctx))
    raises("context: bad cwd", sdk.DaytonaError, lambda: ci.create_context(cwd="/no/such/place"))
    ci.delete_context(other)


def time_limit(sb):
    ci = sb.code_interpreter
    ctx = ci.create_context()
    ci.run_code("kept = 'yes'", context=ctx)
    seen = []
    began = time.monotonic()
    raises("timeout", sdk.DaytonaTimeoutError, lambda: ci.run_code(
        "import time\nprint('begun', flush=True)\ntime.sleep(60)\nprint('no')", context=ctx, timeout=1,
        on_stdout=lambda m: seen.append(m.output)))
    check("timeout: in time", time.monotonic() - began < 5, time.monotonic() - began)
    equal("timeout: output until then", "".join(seen), "begun\n")
    equal("timeout: state survives an interrupt", ci.run_code("print(kept)", context=ctx).stdout, "yes\n")
    began = time.monotonic()
    raises("timeout: of what ignores it", sdk.DaytonaTimeoutError, lambda: ci.run_code(
        "import time\nwhile True:\n    try:\n        time.sleep(1)\n    except BaseException:\n        pass",
        context=ctx, timeout=1))
    check("timeout: killed in time", time.monotonic() - began < 8, time.monotonic() - began)
    equal("timeout: default context untouched", ci.run_code("print('ok')").stdout, "ok\n")
    ci.delete_context(ctx)


def calls_of_one_context_queue(sb):
    ci = sb.code_interpreter
    ci.run_code("log = []")
    code = "import time\nlog.append(('s', {0})); time.sleep(0.05); log.append(('e', {0}))"
    threads = [threading.Thread(target=ci.run_code, args=(code.format(i),)) for i in range(5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    got = ci.run_code("print(all(log[i][1] == log[i + 1][1] for i in range(0, 10, 2)), len(log))")
    equal("queue", got.stdout, "True 10\n")


def second_call_is_quick(sb):
    run = sb.code_interpreter.run_code
    times = []
    for _ in range(10):
        began = time.monotonic()
        run("pass")
        times.append(time.monotonic() - began)
    # The SDK's own connection is in it; the bench measures without.
    check("ten calls", sorted(times)[5] < 0.25, times)


async def asynchronous_client():
    async with sdk.AsyncDaytona() as d:
        sb = await d.create(CreateSandboxFromSnapshotParams(auto_stop_interval=0))
        ci = sb.code_interpreter
        got = await ci.run_code("v = 42\nprint(v)")
        equal("async: run", (got.stdout, got.error), ("42\n", None))
        out, failed = [], []

        def on_out(m):
            out.append(m.output)
        await ci.run_code("print(v); 1/0", on_stdout=on_out, on_error=failed.append)
        equal("async: callbacks", ("".join(out), [e.name for e in failed]), ("42\n", ["ZeroDivisionError"]))
        ctx = await ci.create_context(cwd="/tmp")
        equal("async: context", (await ci.run_code("import os; print(os.getcwd())", context=ctx)).stdout,
              "/tmp\n")
        equal("async: list", [c.id for c in await ci.list_contexts()], [ctx.id])
        await raises_async("async: timeout", sdk.DaytonaTimeoutError, lambda: ci.run_code(
            "while True: pass", context=ctx, timeout=1))
        both = await asyncio.gather(ci.run_code("print('a')"), ci.run_code("print('b')", context=ctx))
        equal("async: two contexts at once", [r.stdout for r in both], ["a\n", "b\n"])
        await ci.delete_context(ctx)
        equal("async: none left", await ci.list_contexts(), [])
        await sb.delete()


def main():
    d = Daytona()
    sb = d.create(CreateSandboxFromSnapshotParams(auto_stop_interval=0))
    for fn in (state, callbacks, errors, environment, contexts, time_limit, calls_of_one_context_queue,
               second_call_is_quick):
        section(fn, sb)
    sb.delete()
    section(asynchronous_client)
    finish(50)


main()
