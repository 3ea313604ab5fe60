// The code under test.
import { Kafka } from "kafkajs";

export async function sendOrder(bootstrap, id, order) {
  const producer = new Kafka({ brokers: [bootstrap] }).producer({ idempotent: true });
  try {
    await producer.connect();
    await producer.send({ topic: "orders", messages: [{ key: id, value: order }] });
  } finally {
    await producer.disconnect(); // also if connect() failed: an open connection keeps the process alive
  }
}
