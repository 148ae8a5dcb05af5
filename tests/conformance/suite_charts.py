"""Charts that code-run gives back: five kinds and a composite, as the SDK's classes."""
import base64

from daytona import ChartType, CreateSandboxFromSnapshotParams, Daytona

from check import check, equal, finish, section

FIVE = """
import matplotlib.pyplot as plt
import numpy as np
x = np.linspace(0, 10, 30)
names, values = ['A', 'B', 'C', 'D', 'E'], [40, 63, 15, 25, 8]

plt.figure(figsize=(8, 5))
plt.plot(x, np.sin(x), 'b-', label='sine')
plt.title('Lines'); plt.xlabel('time (s)'); plt.ylabel('level'); plt.grid(True)
plt.show()

plt.figure()
plt.scatter(x, np.sin(x), c=x, cmap='viridis')
plt.colorbar(label='depth')
plt.title('Points'); plt.xlabel('x'); plt.ylabel('y')
plt.show()

plt.figure()
plt.bar(names, values, color='skyblue', edgecolor='navy')
plt.title('Bars'); plt.xlabel('kind'); plt.ylabel('count')
plt.show()

plt.figure()
plt.pie(values, labels=names, autopct='%1.1f%%', shadow=True, startangle=90)
plt.title('Pieces'); plt.axis('equal'); plt.legend()
plt.show()

plt.figure()
plt.boxplot([[1, 2, 3, 4, 5, 100], [2, 4, 6, 8, 10]], patch_artist=True)
plt.title('Boxes'); plt.xlabel('group'); plt.ylabel('value')
plt.show()
print('drawn')
"""

TWO = """
import matplotlib.pyplot as plt
fig, (a, b) = plt.subplots(1, 2)
a.plot([1, 2], [3, 4]); a.set_title('left')
b.bar(['x', 'y'], [5, 6]); b.set_title('right')
fig.suptitle('Both')
plt.show()
"""


def five_kinds(sb):
    got = sb.process.code_run(FIVE, timeout=120)
    equal("charts: text", (got.exit_code, got.result), (0, "drawn\n"))
    equal("charts: stdout", got.artifacts.stdout, "drawn\n")
    charts = got.artifacts.charts
    equal("charts: kinds", [(c.type, type(c).__name__, c.title) for c in charts], [
        (ChartType.LINE, "LineChart", "Lines"), (ChartType.SCATTER, "ScatterChart", "Points"),
        (ChartType.BAR, "BarChart", "Bars"), (ChartType.PIE, "PieChart", "Pieces"),
        (ChartType.BOX_AND_WHISKER, "BoxAndWhiskerChart", "Boxes")])
    for c in charts:
        check(f"charts: picture of {c.title}", base64.b64decode(c.png or "").startswith(b"\x89PNG"))
    line, points, bars, pie, boxes = charts
    equal("line: axes", (line.x_label, line.y_label, line.x_scale), ("time (s)", "level", "linear"))
    equal("line: element", (line.elements[0].label, len(line.elements[0].points)), ("sine", 30))
    check("line: ticks", len(line.x_ticks) == len(line.x_tick_labels) > 2, line.x_ticks)
    equal("scatter: points", len(points.elements[0].points), 30)
    equal("bars", [(e.label, float(e.value)) for e in bars.elements],
          [("A", 40.0), ("B", 63.0), ("C", 15.0), ("D", 25.0), ("E", 8.0)])
    equal("pie: labels", [e.label for e in pie.elements], ["A", "B", "C", "D", "E"])
    check("pie: angles", all(e.angle and e.radius for e in pie.elements), pie.elements)
    equal("boxes", [e.median for e in boxes.elements], [3.5, 6.0])
    equal("boxes: outliers", boxes.elements[0].outliers, [100.0])
    check("boxes: quartiles", boxes.elements[1].first_quartile == 4 and
          boxes.elements[1].third_quartile == 8, boxes.elements[1])


def composite(sb):
    got = sb.process.code_run(TWO, timeout=120)
    equal("composite: one", len(got.artifacts.charts), 1)
    chart = got.artifacts.charts[0]
    equal("composite", (chart.type, type(chart).__name__, chart.title),
          (ChartType.COMPOSITE_CHART, "CompositeChart", "Both"))
    equal("composite: parts", [(e.type, e.title) for e in chart.elements],
          [("line", "left"), ("bar", "right")])


def text_only(sb):
    got = sb.process.code_run("print('dtn_artifact_')")
    equal("no chart", (got.result, got.artifacts.charts or []), ("dtn_artifact_\n", []))
    got = sb.process.code_run("import matplotlib.pyplot as p\np.plot([1])\np.show()\n1/0", timeout=120)
    check("chart before an error", got.exit_code == 1 and len(got.artifacts.charts) == 1
          and "ZeroDivisionError" in got.result, got)
    got = sb.process.code_run('import json\nprint(json.dumps({"items": [1, 2], "ok": True}))')
    equal("json", got.result, '{"items": [1, 2], "ok": true}\n')
    got = sb.process.code_run("def incomplete(")
    check("syntax error", got.exit_code != 0 and "SyntaxError" in got.result, got)
    got = sb.process.code_run("import sys; sys.stderr.write('to stderr')")
    equal("stderr is in the result", (got.exit_code, got.result), (0, "to stderr"))


def main():
    sb = Daytona().create(CreateSandboxFromSnapshotParams(language="python", auto_stop_interval=0))
    for fn in (five_kinds, composite, text_only):
        section(fn, sb)
    sb.delete()
    finish(20)


main()
