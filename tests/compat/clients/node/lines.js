// Answers JSON lines from the standard input with what the operations return: see child.py.

const { createInterface } = require('node:readline')

const pack = (bytes) => (bytes === null || bytes === undefined ? null : Buffer.from(bytes).toString('base64'))
const unpack = (text) => (text === null ? null : Buffer.from(text, 'base64'))

// kafkajs keeps the errors of a partial failure in its partitions.
const causesByPartition = (error) => (Array.isArray(error.partitions) ? error.partitions.map((row) => row.error) : [])

// The first error in the chain of causes that carries one of Kafka's names.
function kafkaError(error, nameOf) {
  const seen = new Set()
  const queue = [error]
  while (queue.length > 0) {
    const one = queue.shift()
    if (!one || typeof one !== 'object' || seen.has(one)) continue
    seen.add(one)
    const name = nameOf(one)
    if (name) return name
    queue.push(...(one.errors ?? []), one.cause, ...causesByPartition(one))
  }
  return error.name ?? 'Error'
}

async function serve(operations, nameOf) {
  // Whatever a library prints must not come between the answers.
  console.log = console.error
  console.info = console.error
  for await (const line of createInterface({ input: process.stdin })) {
    const request = JSON.parse(line)
    let answer
    try {
      answer = { ok: (await operations[request.op](request)) ?? null }
    } catch (error) {
      answer = { error: kafkaError(error, nameOf), detail: String(error.stack ?? error) }
    }
    process.stdout.write(JSON.stringify(answer) + '\n')
  }
  await operations.close?.()
  process.exit(0)
}

module.exports = { kafkaError, pack, serve, unpack }
