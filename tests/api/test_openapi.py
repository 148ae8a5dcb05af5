"""The API descriptions and the generator of the route tables, without a daemon."""
import copy
import glob
import json
import os
import subprocess
import sys

import pytest

TOP = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
FILES = sorted(glob.glob(f"{TOP}/openapi/*.json"))
METHODS = {"get", "put", "post", "delete", "head", "patch", "x-any"}


def load(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def operations(doc):
    for path, item in doc["paths"].items():
        for method, op in item.items():
            if method in METHODS:
                yield path, method, op


def refs(node):
    if isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"]
        for value in node.values():
            yield from refs(value)
    elif isinstance(node, list):
        for value in node:
            yield from refs(value)


def apigen(out, *files):
    return subprocess.run([sys.executable, f"{TOP}/tools/apigen", "--out", str(out), *files],
                          capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("path", FILES, ids=os.path.basename)
def test_every_reference_resolves(path):
    doc = load(path)
    for ref in refs(doc):
        node = doc
        for part in ref.removeprefix("#/").split("/"):
            assert part in node, ref
            node = node[part]


@pytest.mark.parametrize("path", FILES, ids=os.path.basename)
def test_every_operation_is_described(path):
    seen = set()
    for where, method, op in operations(load(path)):
        name = op["operationId"]
        assert name not in seen, name
        seen.add(name)
        assert op["summary"], name
        if op["x-caisson"]["built"]:
            assert "default" in op["responses"], f"{name} describes no error"
            assert ("requestBody" in op) == (op["x-caisson"]["body"] != "none"), name
        else:
            assert list(op["responses"]) == ["501"], name


@pytest.mark.parametrize("path", FILES, ids=os.path.basename)
def test_what_is_required_exists(path):
    for name, schema in load(path)["components"]["schemas"].items():
        missing = set(schema.get("required", ())) - set(schema.get("properties", ()))
        assert not missing, f"{name}: {missing}"


def test_every_changing_call_of_the_control_api_is_audited():
    spared = {"updateLastActivity"}  # moves a timer, many times an hour
    for _, method, op in operations(load(f"{TOP}/openapi/daytona-control.json")):
        x = op["x-caisson"]
        if x["built"] and method != "get" and op["operationId"] not in spared:
            assert x.get("action") and x.get("target"), op["operationId"]


def test_same_input_gives_the_same_bytes(tmp_path):
    for out in ("a", "b"):
        assert apigen(tmp_path / out, *FILES).returncode == 0
    for name in ("routes.c", "routes.h"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def broken(change):
    doc = copy.deepcopy(load(f"{TOP}/openapi/caisson.json"))
    change(doc)
    return doc


BROKEN = {
    "unknown key": lambda d: d["paths"]["/status"]["get"]["x-caisson"].update(bulit=True),
    "no built": lambda d: d["paths"]["/status"]["get"]["x-caisson"].pop("built"),
    "no 501": lambda d: d["paths"]["/status"]["get"]["x-caisson"].update(built=False),
    "bad body": lambda d: d["paths"]["/status"]["get"]["x-caisson"].update(body="some"),
    "bad size": lambda d: d["paths"]["/status"]["get"]["x-caisson"].update(bodyMax=1 << 32),
    "twice": lambda d: d["paths"]["/status"]["get"].update(operationId="listImages"),
    "undeclared": lambda d: d["paths"].update({"/x/{y}": d["paths"].pop("/status")}),
    "slash": lambda d: d["paths"].update({"/x/": d["paths"].pop("/status")}),
    "same shape": lambda d: d["paths"].update({"/images/{other}": {"delete": {
        **d["paths"]["/images/{name}"]["delete"], "operationId": "other",
        "parameters": [{"name": "other", "in": "path"}]}}}),
    "no dialect": lambda d: d.pop("x-caisson"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_broken_document_is_refused_by_name(what, tmp_path):
    file = tmp_path / "doc.json"
    file.write_text(json.dumps(broken(BROKEN[what])))
    done = apigen(tmp_path / "out", str(file))
    assert done.returncode != 0
    assert done.stderr.startswith("apigen: ") and str(file) in done.stderr
    assert not (tmp_path / "out" / "routes.c").exists()
