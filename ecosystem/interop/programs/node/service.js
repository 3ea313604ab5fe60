// A service that keeps running while its broker is reset: node service.js BOOTSTRAP. For each order it produces a result, and
// commits.
import kafkajs from 'kafkajs'

const kafka = new kafkajs.Kafka({ brokers: [process.argv[2]], logLevel: kafkajs.logLevel.ERROR })
const consumer = kafka.consumer({ groupId: 'service' })
const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 })
await producer.connect()
await consumer.connect()
await consumer.subscribe({ topic: 'orders', fromBeginning: true })
await consumer.run({
  autoCommitThreshold: 1,
  eachMessage: async ({ message }) => {
    await producer.send({ topic: 'results', acks: -1, messages: [{ key: message.value, value: message.value }] })
  },
})
