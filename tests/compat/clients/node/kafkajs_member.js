// A group member by kafkajs; what it hears and says is in tests/compat/group_member.py.

const { Kafka, logLevel } = require('kafkajs')
const { commitOffsets, readOrders, tell, work } = require('./member.js')

const options = JSON.parse(process.argv[2])
const kafka = new Kafka({
  brokers: [options.bootstrap],
  logLevel: logLevel.NOTHING,
  retry: { initialRetryTime: 50, retries: 20 },
})
const consumer = kafka.consumer({
  groupId: options.group,
  sessionTimeout: options.session_ms,
  heartbeatInterval: options.heartbeat_ms,
  maxWaitTimeInMs: 100,
})
let owned = []
const read = new Map()

function give(partitions) {
  owned = partitions
  tell('assigned', { partitions })
}

// It rebalances eagerly: everything goes, then a new share comes.
function takeAway(event) {
  if (owned.length > 0) tell(event, { partitions: owned })
  owned = []
  read.clear()
}

const commit = () => commitOffsets(read, (offsets) => consumer.commitOffsets(offsets))

async function eachBatch({ batch }) {
  const { topic, partition } = batch
  const messages = batch.messages.map(({ offset, value }) => [topic, partition, Number(offset), value.toString()])
  read.set(`${topic} ${partition}`, Number(batch.lastOffset()) + 1)
  tell('received', { messages })
  if (options.commit === 'after') await commit()
}

async function main() {
  consumer.on(consumer.events.REBALANCING, () => takeAway('revoked'))
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    takeAway('lost')
    const shares = Object.entries(payload.memberAssignment)
    give(shares.flatMap(([topic, partitions]) => partitions.map((partition) => [topic, partition])))
  })
  consumer.on(consumer.events.CRASH, ({ payload }) => tell('error', { error: String(payload.error) }))
  await consumer.connect()
  await consumer.subscribe({ topics: options.topics, fromBeginning: true })
  await consumer.run({ autoCommit: options.commit === 'auto', eachBatch })
  tell('ready')
  for await (const order of readOrders()) {
    if (order.op === 'leave') break
    work(order.after_s)
    await commit()
  }
  tell('leaving')
  await consumer.disconnect()
  tell('left')
  process.exit(0)
}

main()
