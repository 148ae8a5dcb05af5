"""process/code-run in the default image: three languages, arguments, charts, refusals."""
import time

import pytest

import cli_daemon
from resthelp import refused

IMAGE = cli_daemon.DEFAULT


def run(api, box, language, code, **fields):
    return api.post(f"/toolbox/{box}/process/code-run",
                    {"code": code, "language": language, **fields})


@pytest.mark.parametrize("language,code,want", [
    ("python", "import sys\nprint('hi', 1 + 1, *sys.argv[1:])", "hi 2 a b c\n"),
    ("javascript", "console.log('hi', 1 + 1, ...process.argv.slice(2))", "hi 2 a b c\n"),
    ("typescript", "const n: number = 2\nconsole.log('hi', n, ...process.argv.slice(2))",
     "hi 2 a b c\n"),
])
def test_languages_with_arguments(api, box, language, code, want):
    got = run(api, box, language, code, argv=["a", "b c"])
    assert (got["result"], got["exitCode"]) == (want, 0), got
    assert got["artifacts"] == {"charts": []}


@pytest.mark.parametrize("language,code", [
    ("python", "import sys; sys.exit(7)"), ("javascript", "process.exit(7)"),
    ("typescript", "process.exit(7 as number)"),
])
def test_exit_codes(api, box, language, code):
    assert run(api, box, language, code)["exitCode"] == 7


@pytest.mark.parametrize("language,code,says", [
    ("python", "def f():\n    raise ValueError('boom')\nf()", ["ValueError: boom", "line 2, in f"]),
    ("python", "print('x'", ["SyntaxError"]),
    ("javascript", "throw new Error('boom')", ["Error: boom"]),
    ("typescript", "interface A { x: number }\nthrow new Error('boom')", ["Error: boom"]),
])
def test_faults_are_shown_and_code_1(api, box, language, code, says):
    got = run(api, box, language, code)
    assert got["exitCode"] == 1
    for text in says:
        assert text in got["result"], got["result"]
    assert "driver" not in got["result"]


def test_env_and_directory(api, box):
    got = run(api, box, "python", "import os; print(os.environ['A'], os.getcwd())",
              envs={"A": "\u2615"})
    assert got["result"] == "\u2615 /home/daytona\n"


def test_program_is_main_and_sees_no_driver(api, box):
    got = run(api, box, "python", "print(__name__, [n for n in dir() if not n.startswith('__')])")
    assert got["result"].startswith("__main__ ["), got
    assert "_show" not in got["result"]


def test_modules_resolve_in_typescript(api, box):
    got = run(api, box, "typescript",
              "import * as os from 'os'\nimport path from 'path'\n"
              "const x: string = path.join('a', 'b')\nconsole.log(typeof os.cpus, x)")
    assert got["result"] == "function a/b\n", got


def test_code_larger_than_arguments_may_be(api, box):
    code = "x = '" + "y" * (4 << 20) + "'\nprint(len(x))"
    assert run(api, box, "python", code)["result"] == f"{4 << 20}\n"


def test_timeout(api, box):
    began = time.monotonic()
    refused(api, 408, "POST", f"/toolbox/{box}/process/code-run",
            {"code": "while True: pass", "language": "python", "timeout": 1},
            code="PROCESS_EXECUTION_TIMEOUT")
    assert time.monotonic() - began < 4


@pytest.mark.parametrize("body,says", [
    ({"code": "x"}, "language: is required"), ({"language": "python"}, "code: is required"),
    ({"code": "x", "language": "ruby"}, "language: must be one of"),
    ({"code": "x", "language": ""}, "language: "), ({"code": 5, "language": "python"}, "code: "),
    ({"code": "x", "language": "python", "argv": "a"}, "argv: "),
    ({"code": "x", "language": "python", "timeout": -1}, "timeout: "),
])
def test_bad_input(api, box, body, says):
    refused(api, 400, "POST", f"/toolbox/{box}/process/code-run", body, says=says)


PLOT = """
import matplotlib.pyplot as plt
print('before')
{draw}
plt.show()
print('after')
"""


@pytest.mark.parametrize("draw,kind,check", [
    ("plt.plot([1, 2, 3], [4, 5, 6], label='a'); plt.title('T'); plt.xlabel('X'); plt.ylabel('Y')",
     "line", lambda c: c["elements"][0]["points"] == [[1, 4], [2, 5], [3, 6]]
     and c["elements"][0]["label"] == "a" and (c["title"], c["x_label"], c["y_label"]) == (
         "T", "X", "Y") and c["x_scale"] == "linear"),
    ("plt.scatter([1, 2], [3, 4])", "scatter",
     lambda c: c["elements"][0]["points"] == [[1, 3], [2, 4]]),
    ("plt.bar(['p', 'q'], [3, 4])", "bar",
     lambda c: [(e["label"], e["value"]) for e in c["elements"]] == [("p", "3"), ("q", "4")]),
    ("plt.pie([1, 3], labels=['m', 'n'])", "pie",
     lambda c: [(e["label"], e["angle"]) for e in c["elements"]] == [("m", 90), ("n", 270)]),
    ("plt.boxplot([[1, 2, 3, 4, 5]])", "box_and_whisker",
     lambda c: (c["elements"][0]["min"], c["elements"][0]["median"], c["elements"][0]["max"]) == (
         1, 3, 5)),
    ("f, (a, b) = plt.subplots(1, 2); a.plot([1]); b.bar(['x'], [1])", "composite_chart",
     lambda c: [e["type"] for e in c["elements"]] == ["line", "bar"]),
])
def test_charts(api, box, draw, kind, check):
    got = run(api, box, "python", PLOT.format(draw=draw), timeout=120)
    assert got["result"] == "before\nafter\n" and got["exitCode"] == 0, got["result"][:500]
    chart, = got["artifacts"]["charts"]
    assert chart["type"] == kind and chart["png"].startswith("iVBOR"), chart["type"]
    assert check(chart), {k: v for k, v in chart.items() if k != "png"}
