// Sends orders, or reads orders and writes invoices. "send" is correct; each other way has a bug.
import kafkajs from 'kafkajs'

const way = process.argv[2]
const kafka = new kafkajs.Kafka({
  brokers: [process.env.WIREBROKER_BOOTSTRAP],
  logLevel: kafkajs.logLevel.NOTHING,
  connectionTimeout: 1000,
  requestTimeout: 1000,
  retry: { initialRetryTime: 10, maxRetryTime: 100, retries: 5 },
})

const ways = {
  // Waits for the result of each order. The producer is idempotent.
  send: () => send({ idempotent: true, maxInFlightRequests: 1 }),
  // Not idempotent: the client may send a stored order again.
  'not-idempotent': () => send({}),
  // Ignores all errors.
  unseen: () => send({ idempotent: true, maxInFlightRequests: 1 }, () => {}),
  // Commits an order's offset before its invoice is stored.
  'not-awaited': invoices,
}

async function send(settings, caught = undefined) {
  const producer = kafka.producer(settings)
  await producer.connect()
  for (let number = 0; number < 3; number++) {
    const sent = producer.send({ topic: 'orders', messages: [{ key: 'customer', value: `order-${number}` }] })
    await (caught ? sent.catch(caught) : sent)
  }
  await producer.disconnect()
}

async function invoices() {
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1, retry: { retries: 1 } })
  const consumer = kafka.consumer({ groupId: 'billing', maxWaitTimeInMs: 100, sessionTimeout: 6000 })
  await producer.connect()
  await consumer.connect()
  await consumer.subscribe({ topic: 'orders', fromBeginning: true })
  const sent = []
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, ({ payload }) => payload.restart || reject(payload.error))
    consumer.run({
      autoCommitThreshold: 1,
      eachMessage: async ({ message: { key, value, offset } }) => {
        const messages = [{ key, value: `invoice of ${value}` }]
        sent.push(producer.send({ topic: 'invoices', messages }).catch((error) => console.error(error.message)))
        if (offset === '3') resolve()
      },
    })
  })
  await consumer.disconnect()
  await Promise.all(sent)
  await producer.disconnect()
}

await ways[way]()
