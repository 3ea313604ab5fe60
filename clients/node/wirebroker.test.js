import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { once } from "node:events";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { find } from "./find.js";
import { start, useBroker } from "wirebroker";

const broker = useBroker({ topics: ["orders:2"] });

function environment(t, variables) {
  const was = { ...process.env };
  t.after(() => (process.env = was));
  process.env = { ...was, ...variables };
}

function folder(t) {
  const made = mkdtempSync(path.join(tmpdir(), "wirebroker-"));
  t.after(() => rmSync(made, { recursive: true }));
  return made;
}

test("records of every form", async () => {
  const headers = { text: "a", bytes: Buffer.from([0xff]), json: { json: 7 } };
  await broker.produce("orders", { key: "k", value: "v", headers, partition: 1 }, { value: Buffer.from([0, 0xff]) }, { key: { json: [1] }, value: null });
  await broker.assertRecords(
    "orders",
    { key: "k", value: /^v$/, headers, partition: 1 },
    { key: null, value: Buffer.from([0, 0xff]) },
    { key: "[1]", value: null },
  );
  const [binary, tombstone, first] = await broker.records("orders");
  assert.deepEqual([binary.key, binary.value, tombstone.value], [null, Buffer.from([0, 0xff]), null]);
  assert.deepEqual(first.headers.map(({ value }) => value), ["a", Buffer.from([0xff]), "7"]);
  await assert.rejects(broker.assertRecords("orders", {}, {}, { key: "other" }), /the records of 'orders' differ/);
});

test("a fault is waited for, and misspelt ones are refused", async () => {
  const rule = await broker.addFault({ kind: "observe", api: "Produce" });
  await assert.rejects(rule.assertFired(), /did not fire at all/);
  await assert.rejects(rule.wait(1, 0.01), /fire/);
  await assert.rejects(broker.addFault({ kind: "observe", api: "Prodce" }), /did you mean 'Produce'/);
});

test("a given broker is the one of the hooks", async (t) => {
  await broker.produce("orders", { value: "of an earlier test" });
  environment(t, { WIREBROKER_BOOTSTRAP: broker.bootstrap, WIREBROKER_CONTROL: broker.control });
  const own = await start("--topic", "orders");
  assert.notEqual(own.bootstrap, broker.bootstrap);
  await own.stop();
  assert.equal((await broker.records("orders")).length, 1);
  for (const options of [["--brokers", "2"], []]) {
    const hooks = { beforeEach: (hook) => (hooks.before = hook), afterEach() {} };
    const shared = useBroker({ topics: ["payments"], options, hooks });
    await hooks.before(t);
    assert.equal(shared.bootstrap === broker.bootstrap, !options.length); // a given broker cannot get options
    await shared.stop();
  }
  await broker.assertRecords("orders");
  await broker.ask("GET", "/topics/payments");
  delete process.env.WIREBROKER_CONTROL;
  const hooks = { beforeEach: (hook) => (hooks.before = hook), afterEach() {} };
  useBroker({ hooks });
  await assert.rejects(hooks.before(t), /only one of them is set/);
});

test("a broker that lacks a path tells its version", async () => {
  const versions = /nothing at \/of-a-later-release;.* is wirebroker [\d.]+, .* to wirebroker [\d.]+: if/;
  await assert.rejects(broker.ask("POST", "/of-a-later-release"), versions);
});

test("a broker of its own ends when it is stopped", async () => {
  const own = await start("--topic", "payments:1");
  await own.ask("GET", "/topics/payments");
  await own.stop();
  await assert.rejects(fetch(`http://${own.bootstrap}`));
});

test("a program that does not start says why", async (t) => {
  await assert.rejects(start("--brokers", "none"), /'none' is not a whole number/);
  environment(t, { WIREBROKER: "/nowhere" });
  await assert.rejects(start(), /nowhere .* did not start: spawn \/nowhere ENOENT/);
});

test("a failed test shows the report", () => {
  const code = `
    import { test } from "node:test";
    import { useBroker } from "wirebroker";
    const broker = useBroker({ topics: ["orders"] });
    test("fails", async () => {
      await broker.produce("orders", { value: "a pound of tea" });
      throw new Error("on purpose");
    });`;
  const run = spawnSync(process.execPath, ["--input-type=module", "-e", code], { cwd: import.meta.dirname, encoding: "utf8" });
  assert.equal(run.status, 1);
  assert.match(run.stdout + run.stderr, /a pound of tea/);
});

test("a test keeps its error if the broker gives no report", async (t) => {
  t.mock.method(console, "error", () => {});
  const gone = await start();
  await gone.stop();
  const failing = gone.reporting(() => Promise.reject(new Error("on purpose")));
  await assert.rejects(failing(), /on purpose/);
  assert.match(console.error.mock.calls[0].arguments[0], /wirebroker gave no report/);
});

test("the program is looked for in order", async (t) => {
  const [empty, cache] = [folder(t), folder(t)];
  environment(t, { WIREBROKER: "given", XDG_CACHE_HOME: cache, WIREBROKER_OFFLINE: "" });
  assert.equal(await find(), "given");
  delete process.env.WIREBROKER;
  process.env.PATH = `${empty}:/usr/bin:/bin`;
  await assert.rejects(find(), /no release is published yet/);

  const system = { darwin: "macos", win32: "windows" }[process.platform] ?? process.platform;
  const platform = `${system}-${process.arch}`;
  const name = `wirebroker-runtime-7.0.0-${platform}`;
  mkdirSync(path.join(empty, name));
  writeFileSync(path.join(empty, name, "wirebroker"), "#!/bin/sh\n", { mode: 0o755 });
  const archive = execFileSync("tar", ["-czf", "-", "-C", empty, name]);
  const site = createServer((_, response) => response.end(archive)).listen(0, "127.0.0.1");
  t.after(() => site.close());
  await once(site, "listening");
  const release = { version: "7.0.0", url: `http://127.0.0.1:${site.address().port}/{version}/{platform}`, sha256: {} };
  process.env.WIREBROKER_OFFLINE = "1";
  await assert.rejects(find(release), /WIREBROKER_OFFLINE=1 forbids the download/);
  process.env.WIREBROKER_OFFLINE = "";
  await assert.rejects(find(release), /undefined was expected/);
  release.sha256[platform] = createHash("sha256").update(archive).digest("hex");
  const program = await find(release);
  assert.equal(readFileSync(program, "utf8"), "#!/bin/sh\n");
  site.close();
  site.closeAllConnections();
  assert.equal(await find(release), program); // the second time it is there

  writeFileSync(path.join(empty, "wirebroker"), "#!/bin/sh\n");
  chmodSync(path.join(empty, "wirebroker"), 0o755);
  assert.equal(await find(release), path.join(empty, "wirebroker"));
  process.chdir(empty);
  t.after(() => process.chdir(import.meta.dirname));
  writeFileSync(path.join(empty, `${name}.tar.gz`), archive);
  execFileSync(process.execPath, [path.join(import.meta.dirname, "platform-package.mjs"), `${name}.tar.gz`, "."]);
  execFileSync("npm", ["install", "--offline", "--no-audit", `wirebroker-${platform}-7.0.0.tgz`]);
  assert.equal(await find(release), path.join(empty, "node_modules", "@wirebroker", platform, "wirebroker"));
});
