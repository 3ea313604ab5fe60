// A Kafka broker for tests: found or started, asked over HTTP, emptied before each test.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { find, pinned } from "./find.js";

const patience = 60_000; // ms: the first start may unpack or download the program, and jest gives a hook 5 s
const begin = ["serve", "--port", "0", "--control", "0", "--ready", "json", "--exit-with-parent"];

/** Attaches to the broker that the environment names. Starts a broker if it names none, or if there are options. */
async function common(options) {
  const { WIREBROKER_BOOTSTRAP: bootstrap, WIREBROKER_CONTROL: control } = process.env;
  if (!bootstrap !== !control) {
    throw new Error("WIREBROKER_BOOTSTRAP and WIREBROKER_CONTROL name a running broker together; only one of them is set");
  }
  return bootstrap && !options.length ? new Broker({ bootstrap, control }) : start(...options);
}

/** Starts a broker of its own with these flags of `wirebroker serve`. */
export async function start(...options) {
  const program = await find();
  const child = spawn(program, [...begin, ...options]); // the broker stops when its stdin ends, that is, when this process ends
  let told = "";
  child.stderr.on("data", (text) => (told += text));
  const ended = new Promise((resolve) => child.on("error", resolve).on("close", () => resolve(new Error(told))));
  const ready = new Promise((resolve) => createInterface({ input: child.stdout }).once("line", resolve));
  const line = await Promise.race([ready, ended]);
  if (line instanceof Error) throw new Error(`${program} ${[...begin, ...options].join(" ")} did not start: ${line.message}`);
  const parts = [child, child.stdin, child.stdout, child.stderr];
  for (const each of parts) each.unref(); // tests need not stop it
  return new Broker(JSON.parse(line), () => {
    for (const each of parts) each.ref();
    child.kill();
    return ended;
  });
}

/**
 * Registers hooks in the test file and returns the broker that its tests share. The broker is emptied before each test, and a
 * test that fails shows the broker's report. The hooks are the global hooks of jest or vitest, otherwise those of node:test.
 */
export function useBroker({ topics = [], options = [], hooks } = {}) {
  hooks ??= globalThis.beforeEach ? globalThis : process.getBuiltinModule("node:test");
  const broker = new Broker({});
  // The hooks have rest parameters, because jest would take a first parameter for a callback.
  hooks.beforeEach(async (...[context]) => {
    if (!broker.control) Object.assign(broker, await common(options));
    const name = context?.task?.name ?? context?.name ?? globalThis.expect?.getState?.().currentTestName ?? "";
    await broker.reset(name, topics);
  }, patience);
  hooks.afterEach(async (...[context]) => {
    const failed = context?.task?.result?.state === "fail" || context?.error || context?.passed === false;
    if (failed) await show(broker);
  });
  hooks.afterAll?.(() => broker.stop()); // a worker of jest or vitest lives longer than the file
  return broker;
}

export class Broker {
  constructor({ bootstrap, control, version }, end = () => {}) {
    Object.assign(this, { bootstrap, control, version, end });
  }

  async stop() {
    await this.end();
    this.control = undefined;
  }

  /** Calls an endpoint of the control. Throws an Error if the response is a problem. */
  async ask(method, path, body) {
    const headers = { accept: "application/json" };
    const response = await fetch(this.control + path, { method, body: body && JSON.stringify(body), headers });
    const result = await response.json();
    if (!response.ok) throw new Error(result.detail + (await this.#age(result.detail)));
    return result;
  }

  /** If the broker lacks a path, names the versions of the broker and the package: an older broker has fewer paths. */
  async #age(problem) {
    if (!problem.startsWith("there is nothing at ")) return "";
    const { info } = await this.ask("GET", "/openapi.json");
    return (
      `; the broker is wirebroker ${info.version}, and this library belongs to wirebroker ${pinned.version}: ` +
      "if the broker is older, install the library's version, or set WIREBROKER to its program"
    );
  }

  /** Returns the broker's report as text: what happened since the test began. */
  async report() {
    return (await this.ask("GET", "/report")).text;
  }

  /** Wraps a test for jest, so that a failing test shows the report: jest does not tell hooks whether a test failed. */
  reporting(run) {
    return async () => {
      try {
        return await run();
      } catch (error) {
        await show(this);
        throw error;
      }
    };
  }

  /** Empties the broker, whose clients stay connected, and makes sure that it has the topics ("orders", "orders:3"). */
  async reset(name = "", topics = []) {
    await this.ask("POST", "/tests", { name, topics });
  }

  async addFault(fault) {
    const { id } = await this.ask("POST", "/faults", fault);
    return {
      id,
      wait: (times = 1, seconds = 5) => this.ask("GET", `/faults/${id}/wait?times=${times}&timeout=${seconds}`),
      assertFired: () => this.ask("GET", `/faults/${id}/assert-fired`),
    };
  }

  async produce(topic, ...records) {
    await this.ask("POST", `/topics/${encodeURIComponent(topic)}/records`, { records: records.map(written) });
  }

  /** Returns the committed records of a topic, in the order of partition and offset. */
  async records(topic) {
    const records = [];
    for (let next = `/topics/${encodeURIComponent(topic)}/records?committed=true`; next; ) {
      const page = await this.ask("GET", next);
      records.push(...page.records);
      next = page.next;
    }
    return records.map((record) => ({
      ...record,
      key: read(record.key),
      value: read(record.value),
      headers: record.headers.map(({ name, value }) => ({ name, value: read(value) })),
    }));
  }

  /** Waits until the topic has as many committed records as expected, and compares them, in any order. */
  async assertRecords(topic, ...expected) {
    const body = { records: expected.map(written), in_order: false };
    await this.ask("POST", `/topics/${encodeURIComponent(topic)}/records/assert`, body);
  }

  /** Returns the broker's verdict on each produced batch of a topic. */
  async verdicts(topic) {
    const { verdicts } = await this.ask("GET", `/verdicts?topic=${encodeURIComponent(topic)}`);
    return verdicts.map((row) => row.verdict);
  }

  async killBroker(node = 1) {
    await this.ask("POST", `/brokers/${node}/kill`);
  }

  async startBroker(node = 1) {
    await this.ask("POST", `/brokers/${node}/start`);
  }

  /** Moves the broker's clock: sessions and transactions time out, records and offsets expire. */
  async advance(milliseconds) {
    await this.ask("POST", "/clock/advance", { milliseconds });
  }
}

/** Prints the report of a test that failed. The test's own error matters more than a broker that gives no report. */
async function show(broker) {
  console.error(await broker.report().catch((error) => `wirebroker gave no report: ${error.message}`));
}

function data(value) {
  if (value instanceof Uint8Array) return { base64: Buffer.from(value).toString("base64") };
  return value instanceof RegExp ? { regex: value.source } : value;
}

function written({ headers, ...record }) {
  const all = Object.entries(headers ?? {}).map(([name, value]) => [name, data(value)]);
  const made = { ...record, headers: headers && Object.fromEntries(all) };
  for (const field of ["key", "value"]) if (field in record) made[field] = data(record[field]);
  return made;
}

function read(stored) {
  return stored && (stored.text ?? Buffer.from(stored.base64, "base64"));
}
