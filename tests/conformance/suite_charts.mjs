// Charts that code-run gives back, as the TypeScript SDK shows them.
import { check, equal, finish, sdk, section } from './check.mjs'

const daytona = new sdk.Daytona()
const box = await daytona.create({ language: 'python', autoStopInterval: 0 })

await section('five kinds', async () => {
  const got = await box.process.codeRun(`
import matplotlib.pyplot as plt
names, values = ['A', 'B'], [40, 63]
plt.plot([1, 2], [3, 4], label='one'); plt.title('Lines'); plt.xlabel('time (s)'); plt.show()
plt.scatter([1, 2, 3], [3, 4, 5], c=[1, 2, 3]); plt.colorbar(); plt.title('Points'); plt.show()
plt.bar(names, values); plt.title('Bars'); plt.show()
plt.pie(values, labels=names, autopct='%1.1f%%'); plt.title('Pieces'); plt.show()
plt.boxplot([[1, 2, 3, 4, 5, 100]]); plt.title('Boxes'); plt.show()
print('drawn')
`, undefined, 120)
  equal('text', [got.exitCode, got.result, got.artifacts.stdout], [0, 'drawn\n', 'drawn\n'])
  const charts = got.artifacts.charts ?? []
  equal('kinds', charts.map((c) => [c.type, c.title]), [['line', 'Lines'], ['scatter', 'Points'],
    ['bar', 'Bars'], ['pie', 'Pieces'], ['box_and_whisker', 'Boxes']])
  equal('the SDK knows them', charts.every((c) => Object.values(sdk.ChartType).includes(c.type)), true)
  check('pictures', charts.every((c) => c.png?.startsWith('iVBOR')))
  const [line, points, bars, pie, boxes] = charts
  equal('line', [line.x_label, line.elements[0].label, line.elements[0].points],
    ['time (s)', 'one', [[1, 3], [2, 4]]])
  equal('scatter', points.elements[0].points.length, 3)
  equal('bars', bars.elements.map((e) => [e.label, Number(e.value)]), [['A', 40], ['B', 63]])
  equal('pie', pie.elements.map((e) => e.label), ['A', 'B'])
  equal('boxes', [boxes.elements[0].median, boxes.elements[0].outliers], [3.5, [100]])
})

await section('composite', async () => {
  const got = await box.process.codeRun(`
import matplotlib.pyplot as plt
fig, (a, b) = plt.subplots(1, 2)
a.plot([1, 2], [3, 4]); b.bar(['x'], [5])
plt.show()
`, undefined, 120)
  equal('composite', got.artifacts.charts?.map((c) => [c.type, c.elements.map((e) => e.type)]),
    [['composite_chart', ['line', 'bar']]])
})

await box.delete()
await daytona[Symbol.asyncDispose]()
finish(10)
