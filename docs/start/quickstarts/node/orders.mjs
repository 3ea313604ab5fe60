// The code under test.
import { Kafka } from "kafkajs";

// By default kafkajs waits 30 s for each response, and it repeats a request up to 5 times on the same connection: if the connection
// is silent, 202 s pass before the error.
const patience = { requestTimeout: 3_000, retry: { initialRetryTime: 100, retries: 5 } };

export async function sendOrder(bootstrap, id, order) {
  const producer = new Kafka({ brokers: [bootstrap], ...patience }).producer({ idempotent: true });
  try {
    await producer.connect();
    await producer.send({ topic: "orders", messages: [{ key: id, value: order }] });
  } finally {
    await producer.disconnect(); // also if connect() failed: an open connection keeps the process alive
  }
}
