// Language servers through the TypeScript SDK, with relative projects and file URIs.
import { check, equal, finish, raises, sdk, section } from './check.mjs'

const daytona = new sdk.Daytona()
const box = await daytona.create({ autoStopInterval: 0 })

await section('typescript', async () => {
  await box.fs.uploadFile(Buffer.from('{}'), 'ts/tsconfig.json')
  await box.fs.uploadFile(Buffer.from(`class Base {
  hello(): string { return 'x' }
}
class E extends Base {
  extra: number = 1
}
var obj1 = new Base();
obj1.
`), 'ts/index.ts')
  const [{ file }] = await box.fs.findFiles('ts', 'var obj1 = new Base();')
  const lsp = await box.createLspServer('typescript', 'ts')
  await raises('not started', sdk.DaytonaLspServerNotInitializedError, () => lsp.didOpen(file),
    { statusCode: 400, code: 'LSP_SERVER_NOT_INITIALIZED' })
  await lsp.start()
  await lsp.didOpen(file)
  const names = (await lsp.documentSymbols(file)).map((s) => s.name)
  check('symbols', ['Base', 'E', 'obj1'].every((n) => names.includes(n)), names)
  const labels = async () => (await lsp.completions(file, { line: 7, character: 5 })).items.map((i) => i.label)
  const first = await labels()
  check('completions', first.includes('hello') && !first.includes('extra'), first.slice(0, 20))
  await box.fs.replaceInFiles([file], 'var obj1 = new Base();', 'var obj1 = new E();')
  await lsp.didClose(file)
  await lsp.didOpen(file)
  check('completions after a change', (await labels()).includes('extra'))
  check('workspace', (await lsp.workspaceSymbols('Base')).some((s) => s.name === 'Base'))
  await lsp.stop()
})

await section('python', async () => {
  await box.fs.uploadFile(Buffer.from('class Greeter:\n    def greet(self):\n        return 1\n'), 'py/a.py')
  const lsp = await box.createLspServer('python', 'py')
  await lsp.start()
  await lsp.didOpen('py/a.py')
  const names = (await lsp.documentSymbols('py/a.py')).map((s) => s.name)
  equal('python symbols', ['Greeter', 'greet'].every((n) => names.includes(n)), true)
  check('python workspace', (await lsp.sandboxSymbols('Greet')).some((s) => s.name === 'Greeter'))
  await lsp.stop()
})

await box.delete()
await daytona[Symbol.asyncDispose]()
finish(7)
