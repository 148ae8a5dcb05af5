// What the suites of the TypeScript SDK share: assertions that count and go on.
import { createRequire } from 'node:module'
import { isDeepStrictEqual } from 'node:util'

// The SDK's module form needs a require() that Node 18 does not give to modules.
export const sdk = Number(process.versions.node.split('.')[0]) >= 20
  ? await import('@daytonaio/sdk')
  : createRequire(import.meta.url)('@daytonaio/sdk')

let passed = 0
let failed = 0

export function check(what, ok, seen) {
  if (ok) {
    passed++
    return
  }
  failed++
  console.log(`FAIL ${what}: ${String(JSON.stringify(seen) ?? seen).slice(0, 500)}`)
}

export const equal = (what, got, want) => check(what, isDeepStrictEqual(got, want), [got, want])

export async function raises(what, kind, fn, want = {}) {
  try {
    const got = await fn()
    check(what, false, `no error, but ${got}`)
  } catch (e) {
    check(what, e instanceof kind, [e?.constructor?.name, String(e)])
    for (const [key, value] of Object.entries(want)) equal(`${what}: ${key}`, e[key], value)
    return e
  }
}

export async function section(name, fn) {
  try {
    await fn()
  } catch (e) {
    check(name, false, String(e?.stack ?? e))
  }
}

export async function all(iterator) {
  const found = []
  for await (const x of iterator) found.push(x)
  return found
}

export const sleep = (ms) => new Promise((r) => setTimeout(r, ms))

// What fn gives once it is true; a check fails when it never is.
export async function waitFor(what, fn, ms = 20000) {
  const deadline = Date.now() + ms
  for (;;) {
    const got = await fn()
    if (got || Date.now() > deadline) {
      check(what, Boolean(got), 'waited in vain')
      return got
    }
    await sleep(20)
  }
}

// least: a suite that lost its sections must not pass.
export function finish(least) {
  console.log(`${passed} passed, ${failed} failed`)
  process.exit(failed || passed < least ? 1 : 0)
}
