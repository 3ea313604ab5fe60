// A consumer that sends each record to its parent process, and commits nothing. The parent kills it.
import kafkajs from "kafkajs";

const { Kafka, logLevel } = kafkajs;
const consumer = new Kafka({ brokers: [process.argv[2]], logLevel: logLevel.NOTHING }).consumer({ groupId: "crashes" });
await consumer.subscribe({ topic: "orders", fromBeginning: true });
await consumer.run({ autoCommit: false, eachMessage: async ({ message }) => process.send(message.value.toString()) });
