// Sessions through the TypeScript SDK: shells that live on, logs, followers, input, ends.
import { check, equal, finish, raises, sdk, section, sleep, waitFor } from './check.mjs'

const daytona = new sdk.Daytona()
const box = await daytona.create({ autoStopInterval: 0 })
const p = box.process
let count = 0

async function fresh() {
  const id = `ts-${count++}`
  await p.createSession(id)
  return id
}

const run = (session, command, more = {}) => p.executeSessionCommand(session, { command, ...more })

async function follow(session, command) {
  let out = ''
  let err = ''
  await p.getSessionCommandLogs(session, command, (c) => { out += c }, (c) => { err += c })
  return [out, err]
}

await section('life of a session', async () => {
  await p.createSession('exec-session-1')
  let s = await p.getSession('exec-session-1')
  equal('session', [s.sessionId, s.commands], ['exec-session-1', []])
  const first = await run('exec-session-1', 'export FOO=BAR')
  s = await p.getSession('exec-session-1')
  equal('session: command listed', s.commands.map((c) => [c.id, c.command, c.exitCode]),
    [[first.cmdId, 'export FOO=BAR', 0]])
  const c = await p.getSessionCommand('exec-session-1', first.cmdId)
  equal('session: command', [c.command, c.exitCode], ['export FOO=BAR', 0])
  const second = await run('exec-session-1', 'echo $FOO; echo e >&2')
  equal('session: variable', [second.stdout, second.stderr, second.exitCode], ['BAR\n', 'e\n', 0])
  const logs = await p.getSessionCommandLogs('exec-session-1', second.cmdId)
  equal('session: logs', [logs.stdout, logs.stderr], ['BAR\n', 'e\n'])
  check('session: listed', (await p.listSessions()).some((x) => x.sessionId === 'exec-session-1'))
  await raises('session: taken', sdk.DaytonaConflictError, () => p.createSession('exec-session-1'),
    { statusCode: 409 })
  await p.deleteSession('exec-session-1')
  check('session: gone', !(await p.listSessions()).some((x) => x.sessionId === 'exec-session-1'))
  await raises('session: none', sdk.DaytonaNotFoundError, () => p.getSession('exec-session-1'),
    { statusCode: 404, source: 'DAYTONA_DAEMON' })
})

await section('state', async () => {
  const s = await fresh()
  await run(s, 'cd /tmp; f() { echo f:$1; }')
  equal('state', (await run(s, 'pwd; f 1')).stdout, '/tmp\nf:1\n')
  equal('code', (await run(s, '(exit 42)')).exitCode, 42)
  equal('unicode', (await run(s, 'echo hé 日本 ☕')).stdout, 'hé 日本 ☕\n')
  equal('a1: here-document', (await run(s, "cat << 'EOF' > /tmp/t\nhi\nEOF")).exitCode, 0)
  check('a1: open quote', (await run(s, "echo 'open")).exitCode !== 0)
  equal('a1: alive', (await run(s, 'cat /tmp/t')).stdout, 'hi\n')
  await raises('empty command', sdk.DaytonaBadRequestError, () => run(s, ''), { statusCode: 400 })
})

await section('end of a shell', async () => {
  const s = await fresh()
  equal('end: code', (await run(s, 'exit 3')).exitCode, 3)
  await raises('end: later call', sdk.DaytonaSessionEndedError, () => run(s, 'true'),
    { statusCode: 410, code: 'SESSION_ENDED', source: 'DAYTONA_DAEMON' })
})

await section('asynchronous with input', async () => {
  const s = await fresh()
  const c = await run(s, 'printf "Your name: \\n"; read name; printf "Hello, %s\\n" "$name"; ' +
    'n=1; while (( n <= 3 )); do echo "Count: $n"; (( n++ )); sleep 0.1; done; no-such-program-x',
  { runAsync: true })
  check('async: id, no code', Boolean(c.cmdId) && c.exitCode === undefined, c)
  let out = ''
  let err = ''
  const logs = p.getSessionCommandLogs(s, c.cmdId, (x) => { out += x }, (x) => { err += x })
  await waitFor('async: asked', () => out.includes('name'))
  await p.sendSessionCommandInput(s, c.cmdId, 'Alice')
  await logs
  check('async: talk', out.includes('Hello, Alice\n') && out.includes('Count: 3\n'), out)
  check('async: stderr', err.includes('no-such-program-x'), err)
  equal('async: code', (await p.getSessionCommand(s, c.cmdId)).exitCode, 127)
  equal('async: again', await follow(s, c.cmdId), [out, err])
  await raises('async: late input', sdk.DaytonaGoneError,
    () => p.sendSessionCommandInput(s, c.cmdId, 'late'), { statusCode: 410 })
})

await section('followers', async () => {
  const s = await fresh()
  const c = await run(s, 'for i in 1 2 3; do echo $i; echo e$i >&2; sleep 0.1; done', { runAsync: true })
  const got = await Promise.all([1, 2, 3, 4].map(() => follow(s, c.cmdId)))
  equal('four followers', got, Array(4).fill(['1\n2\n3\n', 'e1\ne2\ne3\n']))
  const big = await run(s, "head -c 4194304 /dev/zero | tr '\\0' x; echo", { runAsync: true })
  const [out] = await follow(s, big.cmdId)
  equal('4 MiB followed', [out.length, out.replaceAll('x', '')], [4194305, '\n'])
  const cut = await run(s, "printf 'caf\\xc3'; sleep 0.3; printf '\\xa9\\n'", { runAsync: true })
  equal('a21: split character', (await follow(s, cut.cmdId))[0], 'café\n')
})

await section('queue', async () => {
  const s = await fresh()
  const got = await Promise.all([...Array(20).keys()].map((i) => run(s, `echo ${i}; sleep 0.01`)))
  equal('twenty at once', got.map((g) => g.stdout), [...Array(20).keys()].map((i) => `${i}\n`))
})

await section('delete ends what runs', async () => {
  const s = await fresh()
  await run(s, 'setsid sleep 4711 & sleep 4711', { runAsync: true })
  await waitFor('delete: runs', async () =>
    (await p.executeCommand("pgrep -fc '^sleep 4711'")).result === '2\n')
  await p.deleteSession(s)
  equal('delete: nothing left', (await p.executeCommand("pgrep -fc '^sleep 4711'")).result, '0\n')
})

await section('entrypoint', async () => {
  equal('entrypoint', (await p.getEntrypointSession()).sessionId, 'entrypoint')
  const logs = await p.getEntrypointLogs()
  equal('entrypoint: logs', [logs.stdout, logs.stderr], ['', ''])
  let out = ''
  await Promise.race([p.getEntrypointLogs((c) => { out += c }, (c) => { out += c }), sleep(20000)])
  equal('entrypoint: follow ends', out, '')
})

await box.delete()
await daytona[Symbol.asyncDispose]()
finish(35)
