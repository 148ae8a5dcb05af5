"""What the suites of the Python SDK share: assertions that count and go on, and the closing line."""
import asyncio
import sys
import time
import traceback
import warnings

import daytona as sdk

warnings.simplefilter("ignore")
passed = failed = 0


def check(what, ok, seen=None):
    global passed, failed
    if ok:
        passed += 1
        return
    failed += 1
    print(f"FAIL {what}: {seen!r}"[:600], flush=True)


def equal(what, got, want):
    check(what, got == want, (got, want))


def raises(what, kind, fn, status=None, code=None, source=None):
    try:
        got = fn()
    except sdk.DaytonaError as e:
        check(what, isinstance(e, kind), (type(e).__name__, e))
        if status:
            equal(f"{what}: status", e.status_code, status)
        if code:
            equal(f"{what}: code", e.code, code)
        if source:
            equal(f"{what}: source", e.source, source)
        return e
    check(what, False, f"no error, but {got!r}")
    return None


async def raises_async(what, kind, fn, **want):
    try:
        got = await fn()
    except sdk.DaytonaError as e:
        error = e
    else:
        check(what, False, f"no error, but {got!r}")
        return None

    def again():
        raise error
    return raises(what, kind, again, **want)


def section(fn, *args):
    """fn may be a coroutine function: it gets a loop of its own."""
    try:
        if asyncio.iscoroutinefunction(fn):
            asyncio.run(fn(*args))
        else:
            fn(*args)
    except Exception:  # noqa: BLE001
        check(fn.__name__, False, traceback.format_exc()[-500:])


def wait_for(what, fn, seconds=20):
    """fn() once it is true; a check fails when it never is."""
    deadline = time.monotonic() + seconds
    while True:
        got = fn()
        if got or time.monotonic() > deadline:
            check(what, bool(got), "waited in vain")
            return got
        time.sleep(0.02)


def finish(least):
    """least: a suite that lost its sections must not pass."""
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or passed < least else 0)
