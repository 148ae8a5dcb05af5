// The TypeScript SDK, used as its users do: sandboxes, life, execs, files, errors, events.
import crypto from 'node:crypto'
import fs from 'node:fs'

import { all, check, equal, finish, raises, sdk, section } from './check.mjs'

const daytona = new sdk.Daytona()

await section('options', async () => {
  const began = Date.now()
  const sb = await daytona.create({
    name: 'ts-options', snapshot: 'caisson-medium', language: 'typescript', user: 'root',
    envVars: { A: '1', U: '日本 ☕' }, labels: { team: 'ü', n: '1' }, public: true,
    autoStopInterval: 30, autoArchiveInterval: 100, autoDeleteInterval: 200, ttlMinutes: 60,
    networkBlockAll: true,
  })
  check('options: no extra poll', Date.now() - began < 5000, Date.now() - began)
  equal('options: state', sb.state, 'started')
  equal('options: name', sb.name, 'ts-options')
  equal('options: snapshot', sb.snapshot, 'caisson-medium')
  equal('options: user', sb.user, 'root')
  equal('options: env', sb.env, { A: '1', U: '日本 ☕' })
  equal('options: label', sb.labels.team, 'ü')
  equal('options: language label', sb.labels['code-toolbox-language'], 'typescript')
  equal('options: public', sb.public, true)
  equal('options: block', sb.networkBlockAll, true)
  equal('options: intervals', [sb.autoStopInterval, sb.autoArchiveInterval, sb.autoDeleteInterval],
    [30, 100, 200])
  check('options: end', Boolean(sb.autoDestroyAt), sb.autoDestroyAt)
  equal('options: resources', [sb.cpu, sb.memory, sb.disk, sb.gpu], [2, 4, 8, 0])
  equal('options: env inside', (await sb.process.executeCommand('printf "%s" "$U"')).result, '日本 ☕')
  equal('options: user inside', (await sb.process.executeCommand('id -un')).result.trim(), 'root')
  equal('get by id', (await daytona.get(sb.id)).name, 'ts-options')
  equal('get by name', (await daytona.get('ts-options')).id, sb.id)
  await raises('duplicate name', sdk.DaytonaConflictError, () => daytona.create({ name: 'ts-options' }),
    { statusCode: 409 })
  await sb.delete(60, true)
  await raises('deleted is gone', sdk.DaytonaNotFoundError, () => daytona.get(sb.id), { statusCode: 404 })
})

await section('list', async () => {
  const mark = crypto.randomUUID()
  const boxes = []
  for (let i = 0; i < 3; i++) boxes.push(await daytona.create({ labels: { mark, i: String(i) } }))
  let got = await all(daytona.list({ labels: { mark }, limit: 2 }))
  equal('list: all pages', got.map((s) => s.id).sort(), boxes.map((s) => s.id).sort())
  got = await all(daytona.list({ labels: { mark, i: '1' } }))
  equal('list: two labels', got.map((s) => s.id), [boxes[1].id])
  got = await all(daytona.list({ labels: { mark }, states: ['stopped', 'archived'] }))
  equal('list: states', got, [])
  equal('set labels', await boxes[0].setLabels({ mark: 'other' }), { mark: 'other' })
  equal('list: after relabel', (await all(daytona.list({ labels: { mark } }))).length, 2)
  for (const sb of boxes) await daytona.delete(sb)
})

await section('life', async () => {
  const sb = await daytona.create()
  equal('defaults', [sb.cpu, sb.memory, sb.disk], [1, 1, 3])
  await sb.fs.uploadFile(Buffer.from('kept'), 'kept.txt')
  const began = Date.now()
  await sb.stop()
  equal('stopped', sb.state, 'stopped')
  await sb.start()
  equal('started again', sb.state, 'started')
  check('stop and start in time', Date.now() - began < 15000, Date.now() - began)
  equal('file kept', (await sb.fs.downloadFile('kept.txt')).toString(), 'kept')
  await sb.setAutostopInterval(7)
  await sb.setAutoArchiveInterval(70)
  await sb.setAutoDeleteInterval(700)
  await sb.setTtl(5)
  await sb.refreshActivity()
  await sb.refreshData()
  equal('intervals', [sb.autoStopInterval, sb.autoArchiveInterval, sb.autoDeleteInterval], [7, 70, 700])
  check('ttl', Boolean(sb.autoDestroyAt), sb.autoDestroyAt)
  equal('home', await sb.getUserHomeDir(), '/home/daytona')
  equal('work dir', await sb.getWorkDir(), '/home/daytona')
  const m = await sb.getMetricsLatest()
  check('metrics', m.cpuCount === 1 && m.memTotal === 2 ** 30, m)
  await sb.stop(60, true)
  equal('forced stop', sb.state, 'stopped')
  await raises('exec when stopped', sdk.DaytonaConflictError, () => sb.process.executeCommand('true'),
    { statusCode: 409 })
  await sb.delete()
})

await section('code run', async () => {
  const programs = {
    python: ['import sys\nprint(6 * 7, sys.argv[1])', 'raise SystemExit(3)'],
    javascript: ['console.log(6 * 7, process.argv[2])', 'process.exit(3)'],
    typescript: ['const n: number = 6\nconsole.log(n * 7, process.argv[2])', 'process.exit(3 as number)'],
  }
  for (const [language, [hello, leave]] of Object.entries(programs)) {
    const sb = await daytona.create({ language })
    const params = new sdk.CodeRunParams()
    params.argv = ['arg']
    params.env = { A: 'b' }
    const got = await sb.process.codeRun(hello, params)
    equal(`${language}: result`, got.result, '42 arg\n')
    equal(`${language}: code`, got.exitCode, 0)
    equal(`${language}: exit`, (await sb.process.codeRun(leave)).exitCode, 3)
    if (language === 'python') {
      const plot = "import matplotlib.pyplot as plt\nplt.bar(['a', 'b'], [3, 4])\nplt.title('T')\n" +
        "plt.show()\nprint('done')"
      const drawn = await sb.process.codeRun(plot, undefined, 120)
      equal('chart: text', drawn.result, 'done\n')
      const chart = drawn.artifacts?.charts?.[0]
      equal('chart: type', chart?.type, 'bar')
      equal('chart: bars', chart?.elements.map((e) => [e.label, e.value]), [['a', '3'], ['b', '4']])
      check('chart: picture', chart?.png?.startsWith('iVBOR'), chart?.title)
      await raises('code run: timeout', sdk.DaytonaTimeoutError,
        () => sb.process.codeRun('while True: pass', undefined, 1), { statusCode: 408 })
    }
    await sb.delete()
  }
})

const box = await daytona.create({ autoStopInterval: 0 })

await section('exec', async () => {
  const run = (...args) => box.process.executeCommand(...args)
  equal('exec', (await run('echo hi')).result, 'hi\n')
  equal('exec: artifacts', (await run('echo hi')).artifacts.stdout, 'hi\n')
  equal('exec: code', (await run('exit 42')).exitCode, 42)
  equal('exec: 127', (await run('no-such-program-x')).exitCode, 127)
  equal('exec: both streams', (await run('echo a; echo b >&2')).result, 'a\nb\n')
  equal('exec: cwd', (await run('pwd', '/tmp')).result, '/tmp\n')
  equal('exec: env', (await run('echo $X-$Y', undefined, { X: '1 2', Y: '☕' })).result, '1 2-☕\n')
  equal('exec: unicode', (await run('echo hé 日本')).result, 'hé 日本\n')
  const began = Date.now()
  await raises('exec: timeout', sdk.DaytonaProcessExecutionTimeoutError,
    () => run('sleep 30', undefined, undefined, 1),
    { statusCode: 408, code: 'PROCESS_EXECUTION_TIMEOUT', source: 'DAYTONA_DAEMON' })
  check('exec: timeout in time', Date.now() - began < 4000, Date.now() - began)
  const out = (await run("head -c 10485760 /dev/zero | tr '\\0' x", undefined, undefined, 60)).result
  check('exec: 10 MB', out === 'x'.repeat(10485760), out.length)
  await raises('exec: empty', sdk.DaytonaBadRequestError, () => run(''), { statusCode: 400 })
  await raises('exec: bad env', sdk.DaytonaBadRequestError, () => run('true', undefined, { '1X': 'y' }))
})

await section('files', async () => {
  const odd = '/tmp/héllo 日本 "q";.txt'
  const data = crypto.randomBytes(5000)
  await box.fs.uploadFile(data, odd)
  check('file: odd name', data.equals(await box.fs.downloadFile(odd)))
  const info = await box.fs.getFileDetails(odd)
  equal('file: size', info.size, 5000)
  equal('file: name', info.name, odd.split('/').pop())
  equal('file: owner', [info.owner, info.permissions], ['1000', '0644'])
  await box.fs.uploadFiles([0, 1, 2].map((i) => (
    { source: Buffer.from(String(i)), destination: `/tmp/many/${i}.txt` })))
  equal('files: many', (await box.fs.listFiles('/tmp/many')).map((e) => e.name).sort(),
    ['0.txt', '1.txt', '2.txt'])
  const got = await box.fs.downloadFiles([{ source: '/tmp/many/2.txt' }, { source: '/nope' },
    { source: odd }])
  equal('files: bulk', got[0].result?.toString(), '2')
  check('files: bulk error', Boolean(got[1].error), got[1])
  equal('files: bulk code', got[1].errorDetails?.code ?? got[1].errorDetails?.errorCode, 'FILE_NOT_FOUND')
  check('files: bulk odd', data.equals(got[2].result ?? Buffer.alloc(0)), got[2].error)
  await raises('file: missing', sdk.DaytonaFileNotFoundError, () => box.fs.downloadFile('/nope'))
  await raises('file: info of missing', sdk.DaytonaFileNotFoundError, () => box.fs.getFileDetails('/nope'),
    { statusCode: 404, code: 'FILE_NOT_FOUND', source: 'DAYTONA_DAEMON' })
  await raises('file: forbidden', sdk.DaytonaFileAccessDeniedError, () => box.fs.deleteFile('/etc/passwd'),
    { statusCode: 403 })
  await box.fs.createFolder('/tmp/made/deep', '750')
  equal('folder', (await box.fs.getFileDetails('/tmp/made/deep')).permissions, '0750')
  await box.fs.moveFiles(odd, '/tmp/made/moved')
  check('moved', data.equals(await box.fs.downloadFile('/tmp/made/moved')))
  await box.fs.setFilePermissions('/tmp/made/moved', { mode: '600' })
  equal('permissions', (await box.fs.getFileDetails('/tmp/made/moved')).permissions, '0600')
  await raises('delete folder needs recursive', sdk.DaytonaBadRequestError,
    () => box.fs.deleteFile('/tmp/made'), { statusCode: 400 })
  await box.fs.deleteFile('/tmp/made', true)
  await raises('deleted', sdk.DaytonaNotFoundError, () => box.fs.getFileDetails('/tmp/made'))
})

await section('big files', async () => {
  const block = crypto.randomBytes(1 << 20)
  const want = crypto.createHash('sha256')
  const out = fs.openSync('big', 'w')
  for (let i = 0; i < 100; i++) {
    fs.writeSync(out, block)
    want.update(block)
  }
  fs.closeSync(out)
  const sum = want.digest('hex')
  await box.fs.uploadFile('big', '/tmp/big')
  equal('100 MB up', (await box.process.executeCommand('sha256sum /tmp/big')).result.split(' ')[0], sum)
  await box.fs.downloadFile('/tmp/big', 'back')
  const back = crypto.createHash('sha256').update(fs.readFileSync('back')).digest('hex')
  equal('100 MB down', back, sum)
})

await section('errors', async () => {
  await raises('unknown sandbox', sdk.DaytonaNotFoundError, () => daytona.get(crypto.randomUUID()),
    { statusCode: 404, source: 'DAYTONA_API' })
  const wrong = new sdk.Daytona({ apiKey: 'dtn_' + '0'.repeat(64), apiUrl: process.env.DAYTONA_API_URL })
  await raises('wrong key', sdk.DaytonaAuthenticationError, () => all(wrong.list()), { statusCode: 401 })
  await wrong[Symbol.asyncDispose]()
  await raises('unknown snapshot', sdk.DaytonaBadRequestError, () => daytona.create({ snapshot: 'nope' }),
    { statusCode: 400 })
  const e = await raises('bad name', sdk.DaytonaValidationError, () => daytona.create({ name: 'a/b' }))
  check('bad name: text', String(e?.message).includes('name'), e?.message)
  await raises('image form is refused clearly', sdk.DaytonaError,
    () => daytona.create({ image: 'debian:12' }), { statusCode: 501 })
  equal('snapshot get', (await daytona.snapshot.get('caisson-large')).cpu, 4)
  check('snapshot list', (await daytona.snapshot.list()).total >= 3)
  await raises('snapshot unknown', sdk.DaytonaNotFoundError, () => daytona.snapshot.get('nope'))
})

await section('events', async () => {
  // A wait that only an event can end early: the SDK polls each second else.
  const twin = await daytona.get(box.id)
  const wait = twin.waitUntilStopped(20).then(() => Date.now())
  await new Promise((r) => setTimeout(r, 300))
  await box.stop()
  const done = Date.now()
  const late = (await wait) - done
  check('event ends the wait', late < 600, late)
})

await section('end', async () => {
  await box.delete()
  await daytona[Symbol.asyncDispose]()
})
finish(60)
