import assert from "node:assert/strict";
import { test } from "node:test";
import { useBroker } from "wirebroker";
import { sendOrder } from "./orders.mjs";

const broker = useBroker({ topics: ["orders:3"] });

test("a lost acknowledgement doubles nothing", async () => {
  const lost = await broker.addFault({ kind: "lose_ack", api: "Produce", topic: "orders", nth: 1 });

  await sendOrder(broker.bootstrap, "order-1", "a pound of tea");

  await lost.assertFired();
  assert.deepEqual(await broker.verdicts("orders"), ["accepted", "duplicate"]);
  await broker.assertRecords("orders", { key: "order-1", value: "a pound of tea" });
});
