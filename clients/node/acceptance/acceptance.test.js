// The ten tests that every library has, here with kafkajs.
import assert from "node:assert/strict";
import { fork } from "node:child_process";
import { once } from "node:events";
import { afterEach, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import kafkajs from "kafkajs";
import { start, useBroker } from "wirebroker";

const { Kafka, logLevel } = kafkajs;
const broker = useBroker({ topics: ["orders:3", "pairs:2", "invoices:1"] });

const clients = [];
afterEach(() => Promise.all(clients.splice(0).map((client) => client.disconnect())));

const kafka = ({ bootstrap } = broker) =>
  new Kafka({
    brokers: [bootstrap],
    logLevel: logLevel.NOTHING,
    retry: { initialRetryTime: 50, maxRetryTime: 300, retries: 30 },
  });

async function producer(settings, at) {
  const made = kafka(at).producer({ idempotent: true, maxInFlightRequests: 1, ...settings });
  clients.push(made);
  await made.connect();
  return made;
}

/** Begins to consume. The returned function waits for this many records. */
async function consumer(groupId, topic, { eachMessage = () => {}, joined = () => {} } = {}) {
  const made = kafka().consumer({ groupId, heartbeatInterval: 100, maxWaitTimeInMs: 100 });
  clients.push(made);
  const seen = [];
  made.on(made.events.GROUP_JOIN, ({ payload }) => joined(payload.memberAssignment[topic]));
  await made.subscribe({ topic, fromBeginning: true });
  await made.run({
    autoCommit: false,
    eachMessage: async (message) => {
      await eachMessage(message);
      seen.push(message.message.value.toString());
    },
  });
  const received = async (count) => {
    await until(() => seen.length >= count, `${count} records; there are ${seen}`);
    return seen.toSorted();
  };
  return { received };
}

async function until(holds, what) {
  for (const end = Date.now() + 30_000; !holds(); await pause(10)) assert.ok(Date.now() < end, `waited in vain for ${what}`);
}

const order = (id, value, headers) => ({ topic: "orders", messages: [{ key: id, value, headers }] });

test("produce and consume", async () => {
  const { send } = await producer();
  await send(order("order-1", "tea"));
  await send(order("order-2", "salt"));
  await broker.assertRecords("orders", { key: "order-1", value: "tea" }, { key: "order-2", value: "salt" });
  const { received } = await consumer("produce and consume", "orders");
  assert.deepEqual(await received(2), ["salt", "tea"]);
});

test("a lost acknowledgement doubles nothing", async () => {
  const lost = await broker.addFault({ kind: "lose_ack", api: "Produce", topic: "orders", nth: 1 });
  await (await producer()).send(order("order-1", "tea"));
  await lost.assertFired();
  assert.deepEqual(await broker.verdicts("orders"), ["accepted", "duplicate"]);
  await broker.assertRecords("orders", { key: "order-1", value: "tea" });
});

test("a record comes again after a crash", async () => {
  await broker.produce("orders", { key: "order-1", value: "tea" });
  const first = fork(new URL("crashes.js", import.meta.url), [broker.bootstrap]);
  assert.deepEqual(await once(first, "message").then(([value]) => value), "tea");
  first.kill("SIGKILL"); // before a commit
  await once(first, "exit");
  await broker.advance(60_000); // the session of the member ends
  const { received } = await consumer("crashes", "orders");
  assert.deepEqual(await received(1), ["tea"]);
});

test("a rebalance divides the partitions", async () => {
  const partitions = {};
  for (const name of ["first", "second"]) {
    await consumer("rebalance", "pairs", { joined: (assigned) => (partitions[name] = assigned) });
  }
  await until(() => partitions.first?.length === 1 && partitions.second?.length === 1, "one partition each");
  assert.deepEqual([...partitions.first, ...partitions.second].sort(), [0, 1]);
});

test("read, process, write: an aborted transaction leaves nothing", async () => {
  await broker.produce("orders", { key: "order-1", value: "tea" });
  const writer = await producer({ transactionalId: "invoices" });
  const eachMessage = async ({ topic, partition, message }) => {
    for (const end of ["abort", "commit"]) {
      const transaction = await writer.transaction();
      await transaction.send({ topic: "invoices", messages: [{ key: message.key, value: `invoice for ${message.value}` }] });
      const offsets = [{ partition, offset: String(Number(message.offset) + 1) }];
      await transaction.sendOffsets({ consumerGroupId: "invoices", topics: [{ topic, partitions: offsets }] });
      await transaction[end]();
    }
  };
  const { received } = await consumer("invoices", "orders", { eachMessage });
  await received(1);
  await broker.assertRecords("invoices", { key: "order-1", value: "invoice for tea" });
  const { records } = await broker.ask("GET", "/topics/invoices/records");
  assert.equal(records.length, 4); // two attempts and the markers of their ends
});

test("an error three times", async () => {
  const refused = await broker.addFault({ kind: "error", code: "NOT_LEADER_OR_FOLLOWER", api: "Produce", topic: "orders", times: 3 });
  await (await producer()).send(order("order-1", "tea"));
  await refused.wait(3);
  await broker.assertRecords("orders", { key: "order-1", value: "tea" });
});

test("a slow broker", async () => {
  const slow = await broker.addFault({ kind: "delay", ms: 300, api: "Produce", topic: "orders" });
  const { send } = await producer();
  const began = performance.now();
  await send(order("order-1", "tea"));
  await slow.assertFired();
  assert.ok(performance.now() - began >= 299);
});

test("the broker is down and comes back", async () => {
  const { send } = await producer();
  await send(order("order-1", "tea"));
  await broker.killBroker();
  let back = false;
  const sent = send(order("order-2", "salt")).then(() => assert.ok(back, "sent to a broker that is down"));
  await pause(200);
  back = true;
  await broker.startBroker();
  await sent;
  await broker.assertRecords("orders", { value: "tea" }, { value: "salt" });
});

test("denied", async (t) => {
  const denial = "deny User:ANONYMOUS WRITE TOPIC orders";
  const allowed = ["allow User:ANONYMOUS ALL TOPIC *", "allow User:ANONYMOUS IDEMPOTENT_WRITE CLUSTER kafka-cluster"];
  const own = await start("--topic", "orders:3", ...[denial, ...allowed].flatMap((acl) => ["--acl", acl]));
  t.after(() => own.stop());
  const { send } = await producer({}, own);
  await assert.rejects(send(order("order-1", "tea")), { type: "TOPIC_AUTHORIZATION_FAILED" });
  await own.assertRecords("orders");
  await own.ask("DELETE", `/acls?acl=${encodeURIComponent(denial)}`);
  await send(order("order-1", "tea"));
});

test("records with headers", async () => {
  const { send } = await producer();
  await send(order("order-1", '{"item": "tea", "grams": 500}', { trace: "abc-7" }));
  await broker.assertRecords("orders", {
    key: /^order-[0-9]+$/,
    value: { json_subset: { item: "tea" } },
    headers: { trace: "abc-7" },
  });
  const [stored] = await broker.records("orders");
  assert.equal(stored.key, "order-1");
  assert.deepEqual(stored.headers, [{ name: "trace", value: "abc-7" }]);
});
