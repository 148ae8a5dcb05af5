"""Charts of code-run beyond the common: odd figures, odd data, and text that looks like a chart."""
import base64
import json
import struct

import pytest

import cli_daemon

IMAGE = cli_daemon.DEFAULT

KINDS = {"line", "scatter", "bar", "pie", "box_and_whisker", "composite_chart", "unknown"}
NUMBERS = {"angle", "first_quartile", "max", "median", "min", "radius", "third_quartile"}
TEXTS = {"png", "title", "type", "x_label", "x_scale", "y_label", "y_scale", "group", "label", "value"}
TEXT_LISTS = {"x_tick_labels", "y_tick_labels"}
NUMBER_LISTS = {"x_ticks", "y_ticks", "outliers"}


def is_number(v):
    return isinstance(v, (int, float)) and not isinstance(v, bool)


def conforms(chart):
    """Names and types of the contract, down to the parts."""
    for key, value in chart.items():
        if key == "elements":
            assert isinstance(value, list)
            for part in value:
                conforms(part)
        elif key in NUMBERS:
            assert is_number(value), (key, value)
        elif key in TEXTS:
            assert isinstance(value, str), (key, value)
        elif key in TEXT_LISTS:
            assert all(isinstance(v, str) for v in value), (key, value)
        elif key in NUMBER_LISTS:
            assert all(is_number(v) for v in value), (key, value)
        elif key == "points":
            assert all(len(p) == 2 and is_number(p[0]) and is_number(p[1]) for p in value)
        else:
            raise AssertionError(f"no such member: {key}")


def draw(api, box, code, error=False):
    got = api.post(f"/toolbox/{box}/process/code-run", {
        "language": "python", "timeout": 120, "code": "import matplotlib.pyplot as plt\n" + code})
    assert (got["exitCode"] != 0) == error, got["result"][-2000:]
    for chart in got["artifacts"]["charts"]:
        assert chart["type"] in KINDS
        conforms(chart)
        png = base64.b64decode(chart["png"])
        assert png[:8] == b"\x89PNG\r\n\x1a\n" and min(struct.unpack(">II", png[16:24])) > 0
    return got["artifacts"]["charts"], got["result"]


@pytest.mark.parametrize("code", [
    "plt.imshow([[1, 2], [3, 4]]); plt.title('T')", "plt.figure()", "plt.axis('off')",
    "plt.hexbin([1, 2], [1, 2])", "plt.contourf([[1, 2], [3, 4]])", "plt.text(0, 0, 'x')",
])
def test_what_is_no_known_kind_is_unknown_with_its_picture(api, box, code):
    (chart,), text = draw(api, box, code + "\nplt.show()")
    assert chart["type"] == "unknown" and chart["elements"] == [] and text == ""


def test_figures_come_in_their_order_and_only_when_shown(api, box):
    charts, _ = draw(api, box, "plt.plot([1]); plt.title('a'); plt.figure(); plt.bar(['x'], [1])\n"
                     "plt.title('b')\nplt.show()\nplt.plot([1]); plt.title('c')\nplt.show(block=False)\n"
                     "plt.plot([2])")
    assert [c["title"] for c in charts] == ["a", "b", "c"]
    assert draw(api, box, "plt.plot([1])")[0] == []


def test_charts_of_before_an_error_are_kept(api, box):
    charts, text = draw(api, box, "plt.plot([1])\nplt.show()\n1/0", error=True)
    assert len(charts) == 1 and "ZeroDivisionError" in text and "driver" not in text


def test_bars_lie_stand_and_group(api, box):
    (chart,), _ = draw(api, box, "plt.barh(['p', 'q'], [3, 4.5])\nplt.show()")
    assert [(e["label"], e["value"]) for e in chart["elements"]] == [("p", "3"), ("q", "4.5")]
    (chart,), _ = draw(api, box, "plt.bar([0, 1], [1, 2], 0.4, label='a')\n"
                       "plt.bar([0.4, 1.4], [3, 4], 0.4, label='b')\nplt.show()")
    assert [(e["group"], e["value"]) for e in chart["elements"]] == [
        ("a", "1"), ("a", "2"), ("b", "3"), ("b", "4")]


def test_scales_ticks_and_labels(api, box):
    (chart,), _ = draw(api, box, "plt.plot([1, 10, 100], [1, 2, 3]); plt.xscale('log')\n"
                       "plt.yticks([1, 2, 3], ['one', 'two', 'three']); plt.xlabel('X'); plt.show()")
    assert chart["x_scale"] == "log" and chart["y_scale"] == "linear" and chart["x_label"] == "X"
    assert chart["y_ticks"] == [1, 2, 3] and chart["y_tick_labels"] == ["one", "two", "three"]


def test_dates_are_points_too(api, box):
    (chart,), _ = draw(api, box, "import datetime as d\n"
                       "plt.plot([d.datetime(2026, 1, 1), d.datetime(2026, 1, 2)], [5, 6])\nplt.show()")
    a, b = chart["elements"][0]["points"]
    assert (a[1], b[1]) == (5, 6) and b[0] - a[0] == 1  # days


@pytest.mark.parametrize("data", ["[1, float('nan'), 3]", "[1, float('inf'), 3]", "[]", "[1e200, -1e200]",
                                  "__import__('numpy').ma.masked_array([1, 2, 3], [0, 1, 0])"])
def test_numbers_that_json_lacks_are_left_out(api, box, data):
    (chart,), _ = draw(api, box, f"plt.plot({data})\nplt.show()")
    assert chart["type"] in ("line", "unknown")


def test_boxes_and_their_outliers(api, box):
    (chart,), _ = draw(api, box, "plt.boxplot([[1, 2, 3, 4, 5, 100]], labels=['v'])\nplt.show()")
    part, = chart["elements"]
    assert (part["label"], part["outliers"], part["min"], part["median"]) == ("v", [100], 1, 3.5)


def test_three_dimensions_and_polar_are_drawn(api, box):
    charts, _ = draw(api, box, "plt.figure().add_subplot(projection='3d').plot([1, 2], [3, 4], [5, 6])\n"
                     "plt.figure().add_subplot(projection='polar').plot([1, 2], [3, 4])\nplt.show()")
    assert len(charts) == 2


def test_titles_of_any_text(api, box):
    title = "a\"b\\c\u2615\u65e5"
    (chart,), _ = draw(api, box, f"plt.plot([1]); plt.title({title!r})\nplt.show()")
    assert chart["title"] == title


# ---- lines that only look like charts ----

MARK = "dtn_artifact_k39fd2:"


def printed(api, box, text):
    got = api.post(f"/toolbox/{box}/process/code-run", {
        "language": "python", "code": f"import sys\nsys.stdout.write({text!r})"})
    assert got["exitCode"] == 0
    return got["artifacts"]["charts"], got["result"]


CHART = json.dumps({"type": "chart", "value": {"type": "line", "title": "t"}})


@pytest.mark.parametrize("text,charts,left", [
    (MARK + CHART + "\nrest", 1, "rest"), ("a" + MARK + CHART, 1, "a"), (MARK + CHART, 1, ""),
    (f"{MARK}{CHART}\n{MARK}{CHART}\n", 2, ""), (MARK, 0, MARK), (MARK + "\n", 0, MARK + "\n"),
    (MARK + "{", 0, MARK + "{"), (MARK + "[]\n", 0, MARK + "[]\n"),
    (MARK + '{"type": "other", "value": {}}\n', 0, MARK + '{"type": "other", "value": {}}\n'),
    (MARK + '{"type": "chart", "value": 5}\n', 0, MARK + '{"type": "chart", "value": 5}\n'),
    (MARK + CHART + "x\n", 0, MARK + CHART + "x\n"), (MARK + MARK + CHART + "\n", 1, MARK),
    (MARK + "[" * 100000 + "\n", 0, MARK + "[" * 100000 + "\n"),
    (MARK[:-1] + " " + CHART, 0, MARK[:-1] + " " + CHART),
])
def test_only_whole_charts_are_taken_out_of_the_text(api, box, text, charts, left):
    got, rest = printed(api, box, text)
    assert len(got) == charts and rest == left


def test_other_languages_may_print_charts_too(api, box):
    got = api.post(f"/toolbox/{box}/process/code-run", {
        "language": "javascript", "code": f"console.log({MARK + CHART!r}); console.log('x')"})
    assert got["result"] == "x\n" and got["artifacts"]["charts"][0]["title"] == "t"
