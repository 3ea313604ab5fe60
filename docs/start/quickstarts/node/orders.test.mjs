import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import { sendOrder } from "./orders.mjs";
import { startWirebroker } from "./wirebroker.mjs";

let broker;
before(async () => {
  broker = await startWirebroker("--topic", "orders:3");
});
beforeEach(() => broker.ask("POST", "/reset", { soft: true }));
after(() => broker?.stop());

test("a lost acknowledgement doubles nothing", async () => {
  const lost = await broker.ask("POST", "/faults", { kind: "lose_ack", api: "Produce", topic: "orders", nth: 1 });

  await sendOrder(broker.bootstrap, "order-1", "a pound of tea");

  await broker.ask("GET", `/faults/${lost.id}/assert-fired`);
  const { verdicts } = await broker.ask("GET", "/verdicts?topic=orders");
  assert.deepEqual(verdicts.map((row) => row.verdict), ["accepted", "duplicate"]);
  const intended = [{ topic: "orders", key: "order-1", value: "a pound of tea" }];
  const audit = await broker.ask("POST", "/audit", { intended });
  assert.deepEqual(audit.findings.map((finding) => finding.explanation), []);
});
