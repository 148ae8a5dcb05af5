// Files through the TypeScript SDK: streams, search, find, replace, permissions, depth, bulk errors.
import crypto from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { Readable } from 'node:stream'

import { check, equal, finish, raises, sdk, section } from './check.mjs'

const daytona = new sdk.Daytona()
const box = await daytona.create({ autoStopInterval: 0 })
const f = box.fs

async function collect(stream) {
  const chunks = []
  for await (const c of stream) chunks.push(c)
  return Buffer.concat(chunks)
}

await section('tour with relative paths', async () => {
  const dir = 'project-files'
  check('listing', Array.isArray(await f.listFiles('.')))
  await f.createFolder(dir, '755')
  fs.writeFileSync('local.txt', 'from here')
  await f.uploadFiles([
    { source: 'local.txt', destination: path.join(dir, 'example.txt') },
    { source: Buffer.from(JSON.stringify({ settings: { debug: true } }, null, 2)),
      destination: path.join(dir, 'config.json') },
    { source: Buffer.from('#!/bin/bash\necho "Hello"\nexit 0'), destination: path.join(dir, 'script.sh') },
  ])
  await box.process.executeCommand(`chmod +x ${dir}/script.sh`)
  equal('script', (await box.process.executeCommand(`${dir}/script.sh`)).result, 'Hello\n')
  const found = await f.searchFiles(dir, '*.json')
  equal('search', found.files.map((x) => path.basename(x)), ['config.json'])
  const done = await f.replaceInFiles([`${dir}/config.json`], '"debug": true', '"debug": false')
  equal('replace', done.map((r) => r.success), [true])
  const got = await f.downloadFiles([
    { source: `${dir}/config.json`, destination: 'back.json' },
    { source: `${dir}/example.txt` },
    { source: `${dir}/missing` },
  ])
  equal('download: into a file', got[0].result, 'back.json')
  equal('download: into memory', got[1].result?.toString(), 'from here')
  check('download: error of one', Boolean(got[2].error), got[2])
  equal('replaced', JSON.parse(fs.readFileSync('back.json', 'utf8')).settings.debug, false)
  await f.deleteFile(dir, true)
})

await section('streams', async () => {
  const data = crypto.randomBytes(3 << 20)
  const sizes = []
  await f.uploadFileStream(Readable.from([data.subarray(0, 1 << 20), data.subarray(1 << 20)]), 'streamed.bin',
    { onProgress: ({ bytesSent }) => sizes.push(bytesSent) })
  equal('progress up', sizes.at(-1), data.length)
  const back = []
  const stream = await f.downloadFileStream('streamed.bin',
    { onProgress: ({ bytesReceived, totalBytes }) => back.push([bytesReceived, totalBytes]) })
  check('stream back', data.equals(await collect(stream)))
  equal('progress down', back.at(-1), [data.length, data.length])
  await raises('stream of a missing file', sdk.DaytonaError,
    async () => collect(await f.downloadFileStream('/nope')))
  const abort = new AbortController()
  try {
    const cut = await f.downloadFileStream('streamed.bin', { signal: abort.signal })
    abort.abort()
    await collect(cut)
    check('abort', false)
  } catch {
    check('abort', true)
  }
  equal('works after an abort', (await f.downloadFile('streamed.bin')).length, data.length)
  await f.uploadFile(Buffer.alloc(0), '/tmp/empty')
  equal('empty file', (await f.getFileDetails('/tmp/empty')).size, 0)
})

await section('find and search', async () => {
  await box.process.executeCommand("mkdir -p /tmp/t/sub; cd /tmp/t; printf 'one hello\\ntwo\\nhello ☕\\n' > " +
    "a.txt; echo hello > sub/c.py; printf 'hello\\0bin' > bin")
  const got = (await f.findFiles('/tmp/t', 'hello')).map((m) => [m.file, m.line, m.content]).sort()
  equal('find', got, [['/tmp/t/a.txt', 1, 'one hello'], ['/tmp/t/a.txt', 3, 'hello ☕'],
    ['/tmp/t/sub/c.py', 1, 'hello']])
  equal('find: literal', await f.findFiles('/tmp/t', 'h.llo'), [])
  equal('search', (await f.searchFiles('/tmp/t', '*.py')).files, ['/tmp/t/sub/c.py'])
  equal('search: none', (await f.searchFiles('/tmp/t', '*.none')).files, [])
  await raises('find: missing', sdk.DaytonaNotFoundError, () => f.findFiles('/tmp/none', 'x'))
  const done = await f.replaceInFiles(['/tmp/t/a.txt', '/tmp/t/none'], 'hello', 'bye $1')
  equal('replace: per file', done.map((r) => [r.file, Boolean(r.success), Boolean(r.error)]),
    [['/tmp/t/a.txt', true, false], ['/tmp/t/none', false, true]])
  equal('replace: literal', (await f.downloadFile('/tmp/t/a.txt')).toString(), 'one bye $1\ntwo\nbye $1 ☕\n')
  const deep = (await f.listFiles('/tmp/t', { depth: 2 })).map((e) => e.path)
  check('list: depth', deep.includes('/tmp/t/sub/c.py'), deep)
})

await section('permissions and bulk errors', async () => {
  await f.uploadFile(Buffer.from('x'), '/tmp/p')
  await f.setFilePermissions('/tmp/p', { mode: '0711', group: 'daytona' })
  const info = await f.getFileDetails('/tmp/p')
  equal('permissions', [info.mode, info.permissions, info.group], ['-rwx--x--x', '0711', '1000'])
  await raises('owner needs root', sdk.DaytonaForbiddenError,
    () => f.setFilePermissions('/tmp/p', { owner: 'root' }), { statusCode: 403 })
  const e = await raises('b13: bulk upload', sdk.DaytonaError, () => f.uploadFiles([
    { source: Buffer.from('1'), destination: '/tmp/bulk/1' },
    { source: Buffer.from('bad'), destination: '/etc/nope' },
    { source: Buffer.from('2'), destination: '/tmp/bulk/2' },
  ]))
  check('b13: names the file', String(e?.message).includes('/etc/nope'), e?.message)
  equal('b13: the others are there', (await f.listFiles('/tmp/bulk')).map((x) => x.name).sort(), ['1', '2'])
})

await box.delete()
await daytona[Symbol.asyncDispose]()
finish(28)
