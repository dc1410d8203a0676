// BullMQ on Redis, for Node.js: client, and worker.
//
// usage: node bullmq_node.cjs rate one|tasks|many SECONDS
//        node bullmq_node.cjs drain COUNT
//        node bullmq_node.cjs fill COUNT EARLIEST LATEST PACE
//        node bullmq_node.cjs work CONCURRENCY
//
// It does what benchmarks/queues/client.py and handler.py do. A module of this kind finds its packages by NODE_PATH.
"use strict"

const { openSync, writeSync } = require("node:fs")
const { setTimeout: sleep } = require("node:timers/promises")
const { Queue, Worker } = require("bullmq")

const PROMISES = 100
const BATCH = 1_000
const LOOK = 20
const TEXT = "x".repeat(100)
const SLEEPS = { sleep1: 1, sleep10: 10 }
const connection = { url: process.env.JOBS_URL, maxRetriesPerRequest: null }

// Seconds, since 1970 or since any moment.
const now = () => (performance.timeOrigin + performance.now()) / 1_000
const between = (earliest, latest) => earliest + Math.random() * (latest - earliest)

function job(due, delay) {
  return { name: "work", data: [due, TEXT], opts: { delay: Math.round(1_000 * delay), removeOnComplete: true } }
}

function add(queue, due, delay) {
  const { name, data, opts } = job(due, delay)
  return queue.add(name, data, opts)
}

async function rate(queue, how, seconds) {
  const delays = Array.from({ length: 100 }, () => between(5, 20))
  await add(queue, 0, 20)
  const began = now()
  let count = 0
  async function oneByOne() {
    while (now() < began + seconds) await add(queue, 0, delays[count++ % delays.length])
  }
  if (how === "tasks") {
    await Promise.all(Array.from({ length: PROMISES }, oneByOne))
  } else if (how === "many") {
    while (now() < began + seconds) {
      await queue.addBulk(Array.from({ length: BATCH }, () => job(0, delays[count++ % delays.length])))
    }
  } else {
    await oneByOne()
  }
  return count / (now() - began)
}

async function drain(queue, count) {
  for (let left = count; left > 0; left -= BATCH) {
    await queue.addBulk(Array.from({ length: Math.min(BATCH, left) }, () => job(0, 0)))
  }
  console.log("filled")
  let first = 0
  let rest = 0
  for (;;) {
    const left = await queue.getJobCountByTypes("waiting", "active", "prioritized")
    if (!first && left < count) [first, rest] = [now(), left]
    if (left === 0) return `${first} ${rest} ${now()}`
    await sleep(LOOK)
  }
}

async function fill(queue, count, earliest, latest, pace) {
  const began = now()
  for (let number = 0; number < count; number++) {
    const early = began + number / pace - now()
    if (early > 0) await sleep(1_000 * early)
    const delay = between(earliest, latest)
    await add(queue, now() + delay, delay)
  }
  return count
}

function compute() {
  const end = now() + 0.0002
  while (now() < end);
}

function work(concurrency) {
  const handler = process.env.JOBS_HANDLER
  const file = handler === "records" ? openSync(process.env.JOBS_RECORD, "a") : 0
  async function handle({ data: [due, text] }) {
    if (handler in SLEEPS) await sleep(SLEEPS[handler])
    else if (handler === "computes") compute()
    else if (handler === "records") {
      const pair = Buffer.alloc(16)
      pair.writeDoubleLE(due, 0)
      pair.writeDoubleLE(now(), 8)
      writeSync(file, pair)
    }
  }
  const worker = new Worker("t", handle, { connection, concurrency })
  worker.on("error", (error) => console.error(error))
}

async function put(what, first, ...more) {
  const queue = new Queue("t", { connection })
  await queue.waitUntilReady()
  const does = { rate: () => rate(queue, first, ...more), drain: () => drain(queue, Number(first)) }
  console.log(await (does[what] ?? (() => fill(queue, Number(first), ...more)))())
  await queue.close()
}

const [what, first, ...numbers] = process.argv.slice(2)
if (what === "work") work(Number(first))
else put(what, first, ...numbers.map(Number))
