// Terminals through the TypeScript SDK: create, connect, size, input, kill, exit codes.
import { check, equal, finish, raises, sdk, section, waitFor } from './check.mjs'

const daytona = new sdk.Daytona()
const box = await daytona.create({ autoStopInterval: 0 })
const p = box.process

function screen() {
  const chunks = []
  const text = () => Buffer.concat(chunks).toString()
  return {
    onData: (data) => { chunks.push(Buffer.from(data)) },
    text,
    until: (what) => waitFor(`terminal says ${JSON.stringify(what)}`, () => text().includes(what)),
  }
}

await section('talk', async () => {
  const s = screen()
  const pty = await p.createPty({ id: 'interactive', cols: 120, rows: 30, onData: s.onData })
  await pty.waitForConnection()
  check('connected', pty.isConnected())
  equal('session id', pty.sessionId, 'interactive')
  await pty.sendInput('printf "Your name: "; read name; printf "Hello, %s\\n" "$name"\n')
  await s.until('Your name: ')
  await pty.sendInput(new TextEncoder().encode('Bob\n'))
  await s.until('Hello, Bob')
  const info = await p.resizePtySession('interactive', 80, 25)
  equal('resized', [info.cols, info.rows], [80, 25])
  await pty.sendInput('stty size; pwd; echo T=$TERM\n')
  await s.until('25 80')
  await s.until('/home/daytona')
  await s.until('T=xterm-256color')
  await pty.sendInput('exit\n')
  equal('exit 0', (await pty.wait()).exitCode, 0)
  await raises('record is gone', sdk.DaytonaNotFoundError, () => p.getPtySessionInfo('interactive'),
    { statusCode: 404 })
})

await section('options', async () => {
  const s = screen()
  const pty = await p.createPty({
    id: 'opts', cwd: '/tmp', envs: { A: '1 2', U: '日本' }, cols: 101, rows: 33, onData: s.onData,
  })
  await pty.waitForConnection()
  const info = await p.getPtySessionInfo('opts')
  equal('info', [info.id, info.active, info.cols, info.rows, info.cwd, info.envs.A],
    ['opts', true, 101, 33, '/tmp', '1 2'])
  equal('listed', (await p.listPtySessions()).map((x) => x.id), ['opts'])
  await pty.sendInput('echo "<$A|$U|$PWD>"; stty size\n')
  await s.until('<1 2|日本|/tmp>')
  await s.until('33 101')
  await raises('bad size', sdk.DaytonaBadRequestError, () => pty.resize(0, 10))
  await raises('taken id', sdk.DaytonaError, async () => {
    const twin = await p.createPty({ id: 'opts', onData: () => {} })
    await twin.waitForConnection()
  })
  await pty.sendInput('exit 7\n')
  const end = await pty.wait()
  equal('exit 7', [end.exitCode, pty.exitCode, pty.isConnected()], [7, 7, false])
})

await section('kill', async () => {
  const s = screen()
  const pty = await p.createPty({ id: 'killed', onData: s.onData })
  await pty.sendInput('while true; do echo running; sleep 0.2; done\n')
  await s.until('running\r\n')
  await pty.kill()
  equal('kill: code', (await pty.wait()).exitCode, 137)
  equal('kill: none listed', (await p.listPtySessions()).length, 0)
  const e = await raises('kill of none', sdk.DaytonaError, () => p.killPtySession('killed'))
  check('kill of none: told', [404, 410].includes(e?.statusCode), e)
})

await section('survives its clients', async () => {
  const first = screen()
  const pty = await p.createPty({ id: 'long', onData: first.onData })
  await pty.sendInput("X=kept; echo rea''dy\n")
  await first.until('ready')
  await pty.disconnect()
  equal('alive without clients', (await p.listPtySessions()).map((x) => x.id), ['long'])
  const [a, b] = [screen(), screen()]
  const one = await p.connectPty('long', { onData: a.onData })
  const two = await p.connectPty('long', { onData: b.onData })
  await Promise.all([one.waitForConnection(), two.waitForConnection()])
  await one.sendInput('echo "<$X>"\n')
  await a.until('<kept>')
  await b.until('<kept>')
  await two.resize(50, 10)
  await one.resize(60, 20)
  await two.sendInput('stty size\n')
  await a.until('20 60')
  await one.sendInput('exit 5\n')
  equal('both see the end', [(await one.wait()).exitCode, (await two.wait()).exitCode], [5, 5])
})

await section('drained', async () => {
  const s = screen()
  const pty = await p.createPty({ id: 'drain', onData: s.onData })
  await pty.sendInput("PS1=; stty -echo; echo be''gin\n")
  await s.until('begin\r\n')
  await pty.sendInput('seq 1 20000; exit 3\n')
  equal('a15: code', (await pty.wait()).exitCode, 3)
  const want = [...Array(20000).keys()].map((i) => `${i + 1}\r\n`).join('')
  check('a15: every line', s.text().includes(want), s.text().slice(-80))
})

await box.delete()
await daytona[Symbol.asyncDispose]()
finish(28)
