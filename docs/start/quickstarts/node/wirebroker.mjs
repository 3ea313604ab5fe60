// A broker for tests: started, asked over HTTP, stopped.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

export async function startWirebroker(...options) {
  const command = ["serve", "--port", "0", "--control", "0", "--exit-with-parent", ...options];
  const process_ = spawn(process.env.WIREBROKER ?? "wirebroker", command, { stdio: ["pipe", "pipe", "inherit"] });
  await once(process_, "spawn").catch(({ message }) => {
    throw new Error(`${message}; install it with \`pip install './wirebroker[control]'\`, or name it in WIREBROKER`);
  });
  const addresses = {};
  for await (const line of createInterface({ input: process_.stdout })) {
    const [, name, address] = /^(listening|control) on (\S+)/.exec(line) ?? [];
    if (name) addresses[name] = address;
    if (line === "ready") return new Wirebroker(process_, addresses.listening, addresses.control);
  }
  throw new Error("wirebroker did not start");
}

class Wirebroker {
  constructor(process, bootstrap, control) {
    Object.assign(this, { process, bootstrap, control });
  }

  async ask(method, path, body) {
    const answer = await fetch(this.control + path, { method, body: body && JSON.stringify(body) });
    const result = await answer.json();
    if (!answer.ok) throw new Error(result.detail);
    return result;
  }

  stop() {
    this.process.kill();
  }
}
