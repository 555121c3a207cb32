// kafkajs, driven by JSON lines. Its public consumer needs a group, so reading goes through the
// library's own cluster and broker classes, which is what that consumer does underneath.

const SnappyJS = require('snappyjs')
const lz4 = require('lz4-napi')
const zstd = require('zstd-napi')
const { CompressionCodecs, CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = require('kafkajs')
const Cluster = require('kafkajs/src/cluster')
const { createLogger } = require('kafkajs/src/loggers')
const LoggerConsole = require('kafkajs/src/loggers/console')
const { createErrorFromCode } = require('kafkajs/src/protocol/error')
const { kafkaError, pack, serve, unpack } = require('./lines.js')

const XERIAL = Buffer.from([0x82, 0x53, 0x4e, 0x41, 0x50, 0x50, 0x59, 0])
const TYPES = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
}

CompressionCodecs[CompressionTypes.Snappy] = () => ({
  compress: async (encoder) => Buffer.from(SnappyJS.compress(encoder.buffer)),
  decompress: async (buffer) => {
    if (!buffer.subarray(0, 8).equals(XERIAL)) return Buffer.from(SnappyJS.uncompress(buffer))
    const blocks = []
    for (let at = 16; at < buffer.length; ) {
      const length = buffer.readInt32BE(at)
      blocks.push(Buffer.from(SnappyJS.uncompress(buffer.subarray(at + 4, at + 4 + length))))
      at += 4 + length
    }
    return Buffer.concat(blocks)
  },
})
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async (encoder) => lz4.compressFrameSync(encoder.buffer),
  decompress: async (buffer) => lz4.decompressFrameSync(buffer),
})
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async (encoder) => zstd.compress(encoder.buffer),
  decompress: async (buffer) => zstd.decompress(buffer),
})

const retry = { initialRetryTime: 50, retries: 8 }
const nameOf = (error) => error.type
let bootstrap
let kafka
let admin
let cluster
const producers = new Map()

async function producerFor({ codec, acks, idempotent }) {
  const name = `${codec} ${acks} ${idempotent}`
  if (!producers.has(name)) {
    const producer = kafka.producer({ idempotent, retry: { ...retry, retries: idempotent ? 100 : 8 } })
    await producer.connect()
    producers.set(name, producer)
  }
  return producers.get(name)
}

function sendable({ value, key, headers, timestamp, partition }) {
  return {
    value: unpack(value),
    key: unpack(key),
    headers: Object.fromEntries(headers.map(([name, text]) => [name, unpack(text)])),
    partition,
    ...(timestamp === null ? {} : { timestamp: String(timestamp) }),
  }
}

async function produce({ topic, messages, codec, acks, idempotent }) {
  const producer = await producerFor({ codec, acks, idempotent })
  let sent
  try {
    sent = await producer.send({
      topic, acks, compression: TYPES[codec], messages: messages.map(sendable), timeout: 30000,
    })
  } catch (error) {
    return messages.map(() => ({ error: kafkaError(error, nameOf) }))
  }
  const next = new Map((sent ?? []).map(({ partition, baseOffset }) => [partition, Number(baseOffset)]))
  return messages.map(({ partition }) => {
    const offset = next.get(partition) ?? -1
    next.set(partition, offset < 0 ? -1 : offset + 1)
    return { partition, offset }
  })
}

async function leaderOf(topic, partition) {
  await cluster.addTargetTopic(topic)
  await cluster.refreshMetadata()
  const leaders = cluster.findLeaderForPartitions(topic, [partition])
  return cluster.findBroker({ nodeId: Object.keys(leaders)[0] })
}

// -1 when no record is that young.
async function offset({ topic, partition, start }) {
  const spec = { earliest: -2, latest: -1 }
  const broker = await leaderOf(topic, partition)
  const timestamp = String(start.time ?? spec[start.spec])
  const answer = await broker.listOffsets({
    replicaId: -1, isolationLevel: 0, topics: [{ topic, partitions: [{ partition, timestamp }] }],
  })
  return Number(answer.responses[0].partitions[0].offset)
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
    for (const message of found.filter(({ offset }) => Number(offset) >= next)) {
      if (got.length < count) got.push(received(message, partition))
      next = Number(message.offset) + 1
    }
  }
  return got
}

async function fetchFrom(topic, partition, fetchOffset, maxWaitTime) {
  const broker = await leaderOf(topic, partition)
  try {
    const answer = await broker.fetch({
      replicaId: -1, isolationLevel: 0, maxWaitTime, minBytes: 1, maxBytes: 50 << 20,
      topics: [{ topic, partitions: [{ partition, fetchOffset: String(fetchOffset), maxBytes: 10 << 20 }] }],
    })
    const row = answer.responses[0]?.partitions[0]
    if (row && row.errorCode !== 0) throw createErrorFromCode(row.errorCode)
    return row?.messages ?? []
  } catch (error) {
    if (kafkaError(error, nameOf) === 'OFFSET_OUT_OF_RANGE') return 'out of range'
    throw error
  }
}

function received({ value, key, headers, timestamp, offset }, partition) {
  return {
    value: pack(value),
    key: pack(key),
    headers: Object.entries(headers).map(([name, bytes]) => [name, pack(bytes)]),
    timestamp: Number(timestamp),
    partition,
    offset: Number(offset),
  }
}

const operations = {
  async connect(request) {
    bootstrap = request.bootstrap
    const common = { clientId: 'barnabas-compat', brokers: [bootstrap], retry }
    kafka = new Kafka({ ...common, logLevel: logLevel.NOTHING })
    admin = kafka.admin({ retry: { ...retry, retries: 3 } })
    await admin.connect()
    cluster = new Cluster({
      ...common,
      logger: createLogger({ level: logLevel.NOTHING, logCreator: LoggerConsole }),
      socketFactory: require('kafkajs/src/network/socketFactory')(),
      connectionTimeout: 10000,
      requestTimeout: 30000,
      enforceRequestTimeout: true,
      metadataMaxAge: 300000,
      allowAutoTopicCreation: false,
      offsets: new Map(),
    })
    await cluster.connect()
  },
  produce,
  consume,
  offset,
  async create_topic({ topic, partitions, configs }) {
    const configEntries = Object.entries(configs).map(([name, value]) => ({ name, value }))
    const made = await admin.createTopics({
      topics: [{ topic, numPartitions: partitions, replicationFactor: 1, configEntries }],
      waitForLeaders: false,
    })
    // kafkajs says of a topic that exists only that it was not made.
    if (!made) throw { type: 'TOPIC_ALREADY_EXISTS' }
  },
  delete_topic: ({ topic }) => admin.deleteTopics({ topics: [topic] }),
  topics: () => admin.listTopics(),
  async partitions({ topic }) {
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
    return topics[0].partitions.length
  },
  async create_partitions({ topic, total }) {
    await admin.createPartitions({ topicPartitions: [{ topic, count: total }] })
  },
  async configs({ topic }) {
    const resources = [{ type: ConfigResourceTypes.TOPIC, name: topic }]
    const answer = await admin.describeConfigs({ includeSynonyms: false, resources })
    const entries = answer.resources[0].configEntries
    return Object.fromEntries(entries.map(({ configName, configValue }) => [configName, configValue]))
  },
  async alter_config({ topic, key, value }) {
    const configEntries = [{ name: key, value }]
    const resources = [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries }]
    await admin.alterConfigs({ validateOnly: false, resources })
  },
  async delete_records({ topic, partition, before }) {
    // kafkajs looks for the leader before it has asked for the topic's metadata.
    await admin.fetchTopicOffsets(topic)
    await admin.deleteTopicRecords({ topic, partitions: [{ partition, offset: String(before) }] })
    return offset({ topic, partition, start: { spec: 'earliest' } })
  },
  async brokers() {
    const { brokers } = await admin.describeCluster()
    return brokers.map(({ host, port }) => `${host}:${port}`)
  },
}

serve(operations, nameOf)
