// Signed file URLs of the TypeScript SDK, used by a client that has no key.
import { check, equal, finish, sdk, section } from './check.mjs'

const daytona = new sdk.Daytona()
const box = await daytona.create({ autoStopInterval: 0 })

await section('download and upload', async () => {
  const odd = '/tmp/with spaces/héllo & ?.txt'
  await box.fs.uploadFile(Buffer.from('by url'), odd)
  const url = await box.downloadUrl(odd)
  check('parameters', url.includes('signature=v1_') && url.includes('expires='), url)
  const got = await fetch(url)
  equal('download', [got.status, await got.text()], [200, 'by url'])
  equal('head', (await fetch(url, { method: 'HEAD' })).status, 200)
  equal('no end', (await fetch(await box.downloadUrl(odd, 0))).status, 200)
  const bad = await fetch(url.replace(/signature=v1_.../, 'signature=v1_AAA'))
  check('forged', [401, 403].includes(bad.status) && !(await bad.text()).includes('by url'), bad.status)
  const form = new FormData()
  form.append('file', new Blob(['sent by form']), 'f')
  const put = await fetch(await box.uploadUrl('/tmp/new/up.txt'), { method: 'POST', body: form })
  equal('upload', put.status, 200)
  equal('upload: bytes', (await box.fs.downloadFile('/tmp/new/up.txt')).toString(), 'sent by form')
  await box.rotateSigningKey()
  check('rotated', [401, 403].includes((await fetch(url)).status))
  equal('new URL', (await fetch(await box.downloadUrl(odd))).status, 200)
})

await box.delete()
await daytona[Symbol.asyncDispose]()
finish(9)
