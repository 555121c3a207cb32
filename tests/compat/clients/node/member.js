// What the Node members of groups share: see tests/compat/group_member.py.

const { writeSync } = require('node:fs')
const { createInterface } = require('node:readline')

// Whatever a library prints must not come between the events.
console.log = console.error
console.info = console.error

function tell(event, values = {}) {
  const at = (performance.timeOrigin + performance.now()) / 1000
  const line = Buffer.from(`${JSON.stringify({ event, at, ...values })}\n`)
  for (let from = 0; from < line.length; ) from += writeSync(1, line, from)
}

async function* readOrders() {
  for await (const line of createInterface({ input: process.stdin })) yield JSON.parse(line)
}

// Work that takes its time on the only thread there is: nothing of the library runs meanwhile.
function work(seconds) {
  tell('working')
  if (seconds > 0) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, seconds * 1000)
}

// `read` maps "topic partition" to the next offset.
async function commitOffsets(read, commit) {
  const offsets = [...read].map(([place, offset]) => {
    const [topic, partition] = place.split(' ')
    return { topic, partition: Number(partition), offset: String(offset) }
  })
  try {
    if (offsets.length > 0) await commit(offsets)
  } catch (error) {
    tell('refused', { error: error.type ?? error.message })
    return
  }
  tell('committed', { offsets: offsets.map(({ topic, partition, offset }) => [topic, partition, Number(offset)]) })
}

module.exports = { commitOffsets, readOrders, tell, work }
