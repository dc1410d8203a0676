// BullMQ on Redis, for Node.js: client, and worker.
//
// usage: node bullmq_node.cjs rate one|tasks|many SECONDS
//        node bullmq_node.cjs fill COUNT EARLIEST LATEST [PACE]
//        node bullmq_node.cjs work CONCURRENCY
//
// It does what benchmarks/queues/client.py and record.py do. A module of this kind finds its packages by NODE_PATH.
"use strict"

const { openSync, writeSync } = require("node:fs")
const { setTimeout: sleep } = require("node:timers/promises")
const { Queue, Worker } = require("bullmq")

const DAY = 86_400
const PROMISES = 100
const BATCH = 1_000
const connection = { url: process.env.JOBS_URL, maxRetriesPerRequest: null }

// Seconds, since 1970 or since any moment.
const now = () => (performance.timeOrigin + performance.now()) / 1_000
const body = (due) => due.toFixed(6).padEnd(128)
const between = (earliest, latest) => earliest + Math.random() * (latest - earliest)

function job(text, delay) {
  return { name: "t", data: { body: text }, opts: { delay: Math.round(1_000 * delay), removeOnComplete: true } }
}

function add(queue, text, delay) {
  const { name, data, opts } = job(text, delay)
  return queue.add(name, data, opts)
}

async function rate(queue, how, seconds) {
  const text = body(0)
  const delays = Array.from({ length: 100 }, () => between(5, 20))
  await add(queue, text, 2 * DAY)
  const began = now()
  let count = 0
  async function oneByOne() {
    while (now() < began + seconds) await add(queue, text, delays[count++ % delays.length])
  }
  if (how === "tasks") {
    await Promise.all(Array.from({ length: PROMISES }, oneByOne))
  } else if (how === "many") {
    while (now() < began + seconds) {
      await queue.addBulk(Array.from({ length: BATCH }, () => job(text, delays[count++ % delays.length])))
    }
  } else {
    await oneByOne()
  }
  return count / (now() - began)
}

async function fill(queue, count, earliest, latest, pace) {
  const began = now()
  const due = (delay) => [body(now() + delay), delay]
  if (pace) {
    for (let number = 0; number < count; number++) {
      const early = began + number / pace - now()
      if (early > 0) await sleep(1_000 * early)
      await add(queue, ...due(between(earliest, latest)))
    }
  } else {
    for (let left = count; left > 0; left -= BATCH) {
      const some = { length: Math.min(BATCH, left) }
      await queue.addBulk(Array.from(some, () => job(...due(between(earliest, latest)))))
    }
  }
  return count / (now() - began)
}

function work(concurrency) {
  const file = openSync(process.env.JOBS_RECORD, "a")
  async function record(job) {
    const came = now()
    const pair = Buffer.alloc(16)
    pair.writeDoubleLE(Number(job.data.body), 0)
    pair.writeDoubleLE(came, 8)
    writeSync(file, pair)
  }
  const worker = new Worker("t", record, { connection, concurrency })
  worker.on("error", (error) => console.error(error))
}

async function put(what, how, numbers) {
  const queue = new Queue("t", { connection })
  await queue.waitUntilReady()
  console.log(what === "rate" ? await rate(queue, how, ...numbers) : await fill(queue, Number(how), ...numbers))
  await queue.close()
}

const [what, how, ...numbers] = process.argv.slice(2)
if (what === "work") work(Number(how))
else put(what, how, numbers.map(Number))
