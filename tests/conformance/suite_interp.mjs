// The code interpreter through the TypeScript SDK: contexts, callbacks, errors, time limits.
import { check, equal, finish, raises, sdk, section } from './check.mjs'

const daytona = new sdk.Daytona()
const box = await daytona.create({ autoStopInterval: 0 })
const ci = box.codeInterpreter

await section('state', async () => {
  let got = await ci.runCode("counter = 1\nprint(f'counter = {counter}')")
  equal('first call', [got.stdout, got.stderr, got.error], ['counter = 1\n', '', undefined])
  got = await ci.runCode('counter += 1\nprint(counter)')
  equal('state persists', got.stdout, '2\n')
  got = await ci.runCode("import sys; print('o'); print('e ☕', file=sys.stderr)")
  equal('two streams', [got.stdout, got.stderr], ['o\n', 'e ☕\n'])
  equal('programs are captured', (await ci.runCode("import os; os.system('echo child')")).stdout, 'child\n')
  equal('env', (await ci.runCode("import os; print(os.environ['A'])", { envs: { A: '1 日' } })).stdout,
    '1 日\n')
  equal('3 MB', (await ci.runCode("print('x' * 3000000)")).stdout.length, 3000001)
})

await section('callbacks', async () => {
  let out = ''
  let err = ''
  const errors = []
  const times = []
  const got = await ci.runCode(
    'import sys, time\nfor i in range(3):\n    print(i, flush=True)\n    time.sleep(0.3)\n' +
    "print('w', file=sys.stderr)\nraise ValueError('boom')", {
      onStdout: (m) => { out += m.output; times.push(Date.now()) },
      onStderr: (m) => { err += m.output },
      onError: (e) => { errors.push(e) },
    })
  equal('callbacks', [out, err], ['0\n1\n2\n', 'w\n'])
  check('callbacks: as it comes', times.at(-1) - times[0] > 400, times)
  equal('callbacks: error', errors.map((e) => [e.name, e.value]), [['ValueError', 'boom']])
  check('callbacks: traceback', errors[0]?.traceback?.includes('ValueError: boom'), errors)
  equal('result too', [got.stdout, got.error?.name], ['0\n1\n2\n', 'ValueError'])
})

await section('errors', async () => {
  for (const [code, name] of [['1/0', 'ZeroDivisionError'], ['def f(', 'SyntaxError'],
    ['undefined_name', 'NameError']]) {
    equal(`error: ${name}`, (await ci.runCode(code)).error?.name, name)
  }
  equal('alive after errors', (await ci.runCode("print('ok')")).stdout, 'ok\n')
})

await section('contexts', async () => {
  const ctx = await ci.createContext('/tmp')
  equal('context', [ctx.cwd, ctx.active, ctx.language], ['/tmp', true, 'python'])
  check('context: listed', (await ci.listContexts()).some((c) => c.id === ctx.id))
  await ci.runCode("value = 'mine'", { context: ctx })
  equal('context: kept', (await ci.runCode('print(value)', { context: ctx })).stdout, 'mine\n')
  equal('context: apart', (await ci.runCode('print(value)')).error?.name, 'NameError')
  const both = await Promise.all([ci.runCode("print('a')"), ci.runCode("print('b')", { context: ctx })])
  equal('two at once', both.map((r) => r.stdout), ['a\n', 'b\n'])
  await ci.deleteContext(ctx)
  check('context: deleted', !(await ci.listContexts()).some((c) => c.id === ctx.id))
  await raises('context: none', sdk.DaytonaNotFoundError, () => ci.deleteContext(ctx), { statusCode: 404 })
  await raises('context: run in none', sdk.DaytonaError, () => ci.runCode('1', { context: ctx }))
})

await section('time limit', async () => {
  const ctx = await ci.createContext()
  await ci.runCode("kept = 'yes'", { context: ctx })
  let out = ''
  const began = Date.now()
  await raises('timeout', sdk.DaytonaTimeoutError, () => ci.runCode(
    "import time\nprint('begun', flush=True)\ntime.sleep(60)",
    { context: ctx, timeout: 1, onStdout: (m) => { out += m.output } }))
  check('timeout: in time', Date.now() - began < 5000, Date.now() - began)
  equal('timeout: output until then', out, 'begun\n')
  equal('timeout: state survives', (await ci.runCode('print(kept)', { context: ctx })).stdout, 'yes\n')
  await ci.deleteContext(ctx)
})

await box.delete()
await daytona[Symbol.asyncDispose]()
finish(25)
