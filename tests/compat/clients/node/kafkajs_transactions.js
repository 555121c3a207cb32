// Transactions by kafkajs, driven by JSON lines: see tests/compat/clients/txn_child.py.

const { Kafka, logLevel } = require('kafkajs')
const { serve } = require('./lines.js')

let kafka
let producer
let transaction

async function open({ id, timeout_ms: transactionTimeout }) {
  producer = kafka.producer({
    transactionalId: id,
    transactionTimeout,
    maxInFlightRequests: 1,
    idempotent: true,
    retry: { initialRetryTime: 50, retries: 20 },
  })
  await producer.connect()
}

const row = (topic, offsets) => ({
  topic,
  partitions: Object.entries(offsets).map(([partition, offset]) => ({ partition: Number(partition), offset: String(offset) })),
})

async function read({ topic, partition, until, committed, wait_ms, linger_ms }) {
  const groupId = `reader-${process.pid}-${Math.random()}`
  const consumer = kafka.consumer({ groupId, readUncommitted: !committed, maxWaitTimeInMs: 100 })
  const values = []
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await new Promise((resolve, reject) => {
    const missing = () => reject(new Error(`${until} does not come, only ${values}`))
    const deadline = setTimeout(missing, wait_ms)
    const eachMessage = async ({ partition: from, message }) => {
      if (from !== partition) return
      values.push(message.value.toString())
      if (values.at(-1) !== until) return
      clearTimeout(deadline)
      setTimeout(resolve, linger_ms)
    }
    consumer.run({ autoCommit: false, eachMessage }).catch(reject)
  })
  await consumer.disconnect()
  return values
}

async function copy({ id, source, target, group, count, abort_every: abortEvery }) {
  await open({ id, timeout_ms: 60000 })
  const consumer = kafka.consumer({ groupId: group, maxWaitTimeInMs: 100, maxBytesPerPartition: 1000 })
  await consumer.connect()
  await consumer.subscribe({ topics: [source], fromBeginning: true })
  let done = 0
  let turn = 0
  await new Promise((resolve, reject) => {
    const eachBatch = async ({ batch, resolveOffset }) => {
      turn += 1
      const { topic, partition, messages } = batch
      transaction = await producer.transaction()
      await transaction.send({
        topic: target,
        messages: messages.map(({ value }) => ({ partition, value: `${value}!` })),
      })
      const next = Number(batch.lastOffset()) + 1
      await transaction.sendOffsets({ consumerGroupId: group, topics: [row(topic, { [partition]: next })] })
      if (turn % abortEvery === 0) {
        await transaction.abort()
        consumer.seek({ topic, partition, offset: messages[0].offset })
        return
      }
      await transaction.commit()
      resolveOffset(batch.lastOffset())
      done += messages.length
      if (done >= count) resolve()
    }
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
    consumer.run({ autoCommit: false, eachBatchAutoResolve: false, eachBatch }).catch(reject)
  })
  await consumer.disconnect()
}

const operations = {
  async connect({ bootstrap }) {
    kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.NOTHING })
  },
  open,
  async begin() {
    transaction = await producer.transaction()
  },
  send: async ({ topic, partition, values }) => {
    await transaction.send({ topic, messages: values.map((value) => ({ partition, value })) })
  },
  offsets: ({ group, topic, offsets }) => transaction.sendOffsets({ consumerGroupId: group, topics: [row(topic, offsets)] }),
  commit: () => transaction.commit(),
  abort: () => transaction.abort(),
  read,
  copy,
}

serve(operations, (error) => error?.type)
