// Git through the TypeScript SDK, against smart-HTTP servers inside the sandbox.
import fs from 'node:fs'

import { check, equal, finish, raises, sdk, section, waitFor } from './check.mjs'

const daytona = new sdk.Daytona()
const box = await daytona.create({ autoStopInterval: 0 })
const { git } = box
const ORIGIN = 'http://127.0.0.1:8901/hello.git'
const CLOSED = 'http://127.0.0.1:8902/hello.git'
const ME = ['Ada Lovelace', 'ada@example.com']
const sh = async (command, cwd) => (await box.process.executeCommand(command, cwd)).result.trim()
const put = (text, path) => box.fs.uploadFile(Buffer.from(text), path)
const states = async (path) => (await git.status(path)).fileStatus.map((f) => [f.name, f.staging, f.worktree])

await section('servers', async () => {
  await box.fs.uploadFile(fs.readFileSync(`${process.env.CAISSON_TESTS}/gitserver.py`), '/tmp/gitserver.py')
  const got = await box.process.executeCommand(`set -e
mkdir -p /tmp/srv; cd /tmp/srv; git init -q --bare -b main hello.git
git -C hello.git config http.receivepack true
git clone -q hello.git /tmp/seed 2> /dev/null; cd /tmp/seed; git checkout -q -B main
git config user.name Seed; git config user.email seed@example.com
echo one > README; git add .; git commit -qm first; echo two >> README; git commit -qam second
git push -q origin main; git checkout -q -b test; git push -q origin test
setsid python3 /tmp/gitserver.py 8901 /tmp/srv < /dev/null > /dev/null 2>&1 &
setsid python3 /tmp/gitserver.py 8902 /tmp/srv a@b.c 'p/w#?%:' < /dev/null > /dev/null 2>&1 &
`, undefined, undefined, 60)
  equal('set up', [got.exitCode, got.result], [0, ''])
  await waitFor('servers listen', async () => (await box.process.executeCommand(
    `git ls-remote ${ORIGIN} > /dev/null 2>&1 && curl -so /dev/null http://127.0.0.1:8902/`)).exitCode === 0)
})

await section('tour with relative paths', async () => {
  const repo = 'demo-repo'
  await git.init(repo, false, 'main')
  await git.configureUser(...ME, 'local', repo)
  equal('user', await git.getConfig('user.name', 'local', repo), ME[0])
  await git.setConfig('core.editor', 'nano', 'local', repo)
  equal('config', await git.getConfig('core.editor', 'local', repo), 'nano')
  equal('unset key', (await git.getConfig('no.such', 'local', repo)) ?? null, null)
  await git.remoteAdd(repo, 'origin', ORIGIN)
  equal('remotes', (await git.remotes(repo)).remotes.map((r) => [r.name, r.url]), [['origin', ORIGIN]])
  equal('remote', await git.remoteGet(repo, 'origin'), ORIGIN)
  await put('line1\n', `${repo}/a.txt`)
  await git.add(repo, ['a.txt'])
  check('commit', /^[0-9a-f]{40}$/.test((await git.commit(repo, 'first commit', ...ME)).sha))
  const branches = await git.branches(repo)
  equal('branches', [branches.branches, branches.current], [['main'], 'main'])
  const s = await git.status(repo)
  equal('status', [s.currentBranch, Boolean(s.detached), s.fileStatus], ['main', false, []])
  await git.createBranch(repo, 'feature')
  await git.checkoutBranch(repo, 'main')
  await git.deleteBranch(repo, 'feature')
  await put('staged\n', `${repo}/b.txt`)
  await git.add(repo, ['b.txt'])
  equal('staged', await states(repo), [['b.txt', 'Added', 'Unmodified']])
  await git.reset(repo)
  equal('unstaged', await states(repo), [['b.txt', 'Untracked', 'Untracked']])
  await put('corrupted\n', `${repo}/a.txt`)
  await git.restore(repo, ['a.txt'])
  equal('restored', (await box.fs.downloadFile(`${repo}/a.txt`)).toString(), 'line1\n')
  await put('v2\n', `${repo}/a.txt`)
  await git.add(repo, ['a.txt'])
  await git.commit(repo, 'second commit', ...ME)
  await git.reset(repo, 'keep', 'HEAD~1')
  equal('reset keep', (await box.fs.downloadFile(`${repo}/a.txt`)).toString(), 'line1\n')
  await git.dangerouslyAuthenticate('ci-bot', 'fake', 'example.com')
  equal('stored', await sh('cat ~/.git-credentials'), 'https://ci-bot:fake@example.com')
})

await section('clone, push, pull', async () => {
  await git.clone(ORIGIN, 'shallow', 'main', undefined, undefined, undefined, undefined, 1)
  equal('depth', await sh('git rev-list --count HEAD', 'shallow'), '1')
  await git.pull('shallow', undefined, undefined, 'main', 'origin')
  await git.clone(ORIGIN, 'branch', 'test')
  equal('branch', (await git.status('branch')).currentBranch, 'test')
  await raises('auth: none', sdk.DaytonaGitAuthFailedError, () => git.clone(CLOSED, '/tmp/c0'),
    { statusCode: 401, code: 'GIT_AUTH_FAILED' })
  await git.clone(CLOSED, 'closed', undefined, undefined, 'a@b.c', 'p/w#?%:')
  await put('mine\n', 'closed/mine.txt')
  await git.add('closed', ['mine.txt'])
  await git.commit('closed', 'mine', ...ME)
  equal('ahead', (await git.status('closed')).ahead, 1)
  await git.push('closed', 'a@b.c', 'p/w#?%:')
  equal('e21: pushed', (await git.status('closed')).ahead, 0)
  await raises('unknown repository', sdk.DaytonaNotFoundError,
    () => git.clone('http://127.0.0.1:8901/none.git', '/tmp/n1'), { statusCode: 404 })
  await raises('branch: taken', sdk.DaytonaGitBranchExistsError, () => git.createBranch('closed', 'main'),
    { statusCode: 409, code: 'GIT_BRANCH_EXISTS' })
  await raises('status: none', sdk.DaytonaError, () => git.status('/tmp'))
})

await box.delete()
await daytona[Symbol.asyncDispose]()
finish(25)
