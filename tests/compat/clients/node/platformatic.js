// @platformatic/kafka, driven by JSON lines; reading goes through its Consumer.fetch, without a group.

const { Admin, Consumer, ConfigResourceTypes, Producer } = require('@platformatic/kafka')
const { kafkaError, pack, serve, unpack } = require('./lines.js')

const LATEST = -1n
const EARLIEST = -2n
const MAX_TIMESTAMP = -3n
const SPECS = { earliest: EARLIEST, latest: LATEST, max_timestamp: MAX_TIMESTAMP }
const CHANGES = { set: 0, delete: 1, append: 2, subtract: 3 }

// It gives each refused record the unknown error as well, beside the real one of the partition.
const nameOf = (error) => (error.apiId === 'UNKNOWN_SERVER_ERROR' ? undefined : error.apiId)
const producers = new Map()
let options
let admin
let consumer

function producerFor({ acks, codec, idempotent }) {
  const name = `${codec} ${acks} ${idempotent}`
  if (!producers.has(name)) {
    producers.set(name, new Producer({ ...options, acks, compression: codec, idempotent, autocreateTopics: true }))
  }
  return producers.get(name)
}

function sendable(topic, { value, key, headers, timestamp, partition }) {
  return {
    topic,
    partition,
    value: unpack(value) ?? undefined,
    key: unpack(key) ?? undefined,
    headers: new Map(headers.map(([name, text]) => [Buffer.from(name), unpack(text)])),
    ...(timestamp === null ? {} : { timestamp: BigInt(timestamp) }),
  }
}

async function produce({ topic, messages, codec, acks, idempotent }) {
  const producer = producerFor({ acks, codec, idempotent })
  let sent
  try {
    sent = await producer.send({ messages: messages.map((message) => sendable(topic, message)) })
  } catch (error) {
    return messages.map(() => ({ error: kafkaError(error, nameOf) }))
  }
  const next = new Map((sent.offsets ?? []).map(({ partition, offset }) => [partition, Number(offset)]))
  return messages.map(({ partition }) => {
    const offset = next.get(partition) ?? -1
    next.set(partition, offset < 0 ? -1 : offset + 1)
    return { partition, offset }
  })
}

async function offset({ topic, partition, start }) {
  const timestamp = start.time === undefined ? SPECS[start.spec] : BigInt(start.time)
  const found = await admin.listOffsets({
    topics: [{ name: topic, partitions: [{ partitionIndex: partition, timestamp }] }],
  })
  return Number(found[0].partitions[0].offset)
}

async function consume({ topic, partition, count, start, wait_ms, fetch_wait_ms }) {
  const deadline = Date.now() + wait_ms
  let next = start.offset ?? (await offset({ topic, partition, start }))
  const got = []
  while (got.length < count && Date.now() < deadline) {
    const found = await fetchFrom(topic, partition, next, fetch_wait_ms)
    if (found === 'out of range') {
      next = await offset({ topic, partition, start: { spec: 'earliest' } })
      continue
    }
    // A batch that holds the offset comes whole: what lies before it is skipped by the client.
    for (const message of found.filter((one) => one.offset >= next)) {
      if (got.length < count) got.push(message)
      next = message.offset + 1
    }
  }
  return got
}

async function fetchFrom(topic, partition, fetchOffset, maxWaitTime) {
  const metadata = await consumer.metadata({ topics: [topic], autocreateTopics: false })
  const described = metadata.topics.get(topic)
  const row = {
    partition, currentLeaderEpoch: -1, fetchOffset: BigInt(fetchOffset), lastFetchedEpoch: -1,
    partitionMaxBytes: 10 << 20,
  }
  try {
    const answer = await consumer.fetch({
      node: described.partitions[partition].leader, maxWaitTime, minBytes: 1, maxBytes: 50 << 20,
      topics: [{ topicId: described.id, partitions: [row] }],
    })
    const batches = answer.responses[0]?.partitions[0].records ?? []
    return batches.flatMap((batch) => batch.records.map((record) => received(batch, record, partition)))
  } catch (error) {
    if (kafkaError(error, nameOf) === 'OFFSET_OUT_OF_RANGE') return 'out of range'
    throw error
  }
}

function received(batch, record, partition) {
  const appended = (batch.attributes & 8) !== 0
  return {
    value: pack(record.value),
    key: pack(record.key),
    headers: record.headers.map(([name, bytes]) => [name.toString(), pack(bytes)]),
    timestamp: Number(appended ? batch.maxTimestamp : batch.firstTimestamp + record.timestampDelta),
    partition,
    offset: Number(batch.firstOffset) + record.offsetDelta,
  }
}

const operations = {
  async connect({ bootstrap }) {
    options = { clientId: 'barnabas-compat', bootstrapBrokers: [bootstrap], retries: 10, retryDelay: 100 }
    admin = new Admin(options)
    consumer = new Consumer({ ...options, groupId: 'nobody' })
    await admin.connectToBrokers()
  },
  produce,
  consume,
  offset,
  async create_topic({ topic, partitions, configs }) {
    const entries = Object.entries(configs).map(([name, value]) => ({ name, value }))
    await admin.createTopics({ topics: [topic], partitions, replicas: 1, configs: entries })
  },
  delete_topic: ({ topic }) => admin.deleteTopics({ topics: [topic] }),
  topics: () => admin.listTopics(),
  async partitions({ topic }) {
    const metadata = await admin.metadata({ topics: [topic], forceUpdate: true, autocreateTopics: false })
    return metadata.topics.get(topic).partitionsCount
  },
  async create_partitions({ topic, total }) {
    // It cannot leave the assignment to the broker: every new partition goes where the first one is.
    const metadata = await admin.metadata({ topics: [topic], forceUpdate: true, autocreateTopics: false })
    const { partitions, partitionsCount } = metadata.topics.get(topic)
    const added = Math.max(total - partitionsCount, 0)
    const assignments = Array.from({ length: added }, () => ({ brokerIds: [partitions[0].leader] }))
    await admin.createPartitions({ topics: [{ name: topic, count: total, assignments }] })
  },
  async configs({ topic }) {
    const resources = [{ resourceType: ConfigResourceTypes.TOPIC, resourceName: topic }]
    const found = await admin.describeConfigs({ resources })
    return Object.fromEntries(found[0].configs.map(({ name, value }) => [name, value]))
  },
  async alter_config({ topic, key, value, change }) {
    const config = { name: key, configOperation: CHANGES[change], ...(change === 'delete' ? {} : { value }) }
    const resources = [{ resourceType: ConfigResourceTypes.TOPIC, resourceName: topic, configs: [config] }]
    await admin.incrementalAlterConfigs({ resources })
  },
  async delete_records({ topic, partition, before }) {
    const found = await admin.deleteRecords({
      topics: [{ name: topic, partitions: [{ partition, offset: BigInt(before) }] }],
    })
    return Number(found[0].partitions[0].lowWatermark)
  },
  async brokers() {
    const metadata = await admin.metadata({ topics: [] })
    return [...metadata.brokers.values()].map(({ host, port }) => `${host}:${port}`)
  },
  async log_dir_bytes({ topic, partition }) {
    const found = await admin.describeLogDirs({ topics: [{ name: topic, partitions: [partition] }] })
    return Number(found[0].results[0].topics[0].partitions[0].partitionSize)
  },
}

serve(operations, nameOf)
