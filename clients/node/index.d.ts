/** Starts a broker of its own with these flags of `wirebroker serve`. */
export function start(...options: string[]): Promise<Broker>;

/**
 * Registers hooks in the test file and returns the broker that its tests share. The broker is emptied before each test, and a
 * test that fails shows the broker's report. The hooks are the global hooks of jest or vitest, otherwise those of node:test.
 */
export function useBroker(settings?: {
  /** "orders", or "orders:3" for 3 partitions. */
  topics?: string[];
  /** Flags of `wirebroker serve`. With flags the file starts a broker, even if the environment names a running one. */
  options?: string[];
  /** For runners without global hooks, such as vitest: `import * as hooks from "vitest"`. */
  hooks?: { beforeEach: Function; afterEach: Function; afterAll?: Function };
}): Broker;

export class Broker {
  /** The address for clients. It is set before the first test. */
  readonly bootstrap: string;
  /** The address of the HTTP control. */
  readonly control: string;
  readonly version?: string;
  stop(): Promise<void>;
  /** Calls an endpoint of the control. Throws an Error if the response is a problem. */
  ask(method: string, path: string, body?: object): Promise<any>;
  /** Returns the broker's report as text: what happened since the test began. */
  report(): Promise<string>;
  /** Wraps a test for jest, so that a failing test shows the report: jest does not tell hooks whether a test failed. */
  reporting(run: () => unknown): () => Promise<unknown>;
  /** Empties the broker, whose clients stay connected, and makes sure that it has the topics. */
  reset(name?: string, topics?: string[]): Promise<void>;
  addFault(fault: Fault): Promise<Rule>;
  /** Stores records without a client. */
  produce(topic: string, ...records: NewRecord[]): Promise<void>;
  /** Returns the committed records of a topic, in the order of partition and offset. */
  records(topic: string): Promise<StoredRecord[]>;
  /** Waits until the topic has as many committed records as expected, and compares them, in any order. */
  assertRecords(topic: string, ...expected: ExpectedRecord[]): Promise<void>;
  /** Returns the broker's verdict on each produced batch of a topic. */
  verdicts(topic: string): Promise<("accepted" | "duplicate" | "rejected")[]>;
  /** Stops a broker like kill -9, until startBroker. */
  killBroker(node?: number): Promise<void>;
  startBroker(node?: number): Promise<void>;
  /** Moves the broker's clock: sessions and transactions time out, records and offsets expire. */
  advance(milliseconds: number): Promise<void>;
}

export interface Rule {
  readonly id: number;
  /** Waits until the fault has fired this many times. */
  wait(times?: number, seconds?: number): Promise<unknown>;
  /** Rejects if the fault has not fired. */
  assertFired(): Promise<unknown>;
}

export type Data = string | Uint8Array | { json: unknown } | null;
/** A regular expression is written in the syntax of RE2; `json_subset` is JSON with at least these fields. */
export type Expected = Data | RegExp | { json_subset: unknown };

export interface NewRecord {
  key?: Data;
  value?: Data;
  headers?: Record<string, Data>;
  partition?: number;
  /** ms since the epoch */
  timestamp?: number;
}

/** A missing field matches anything. */
export interface ExpectedRecord {
  key?: Expected;
  value?: Expected;
  headers?: Record<string, Expected>;
  partition?: number;
}

/** A key, a value or a header's value is a string if it is UTF-8, else a Buffer. */
export interface StoredRecord {
  topic: string;
  partition: number;
  offset: number;
  timestamp: number;
  key: string | Uint8Array | null;
  value: string | Uint8Array | null;
  headers: { name: string; value: string | Uint8Array | null }[];
}

/** The requests on which a fault fires. A missing field matches every request. */
export interface On {
  /** Kafka's name, such as "Produce". */
  api?: string | string[];
  version?: number | [number, number];
  topic?: string;
  partition?: number;
  group?: string;
  transactional_id?: string;
  producer_id?: number;
  producer_epoch?: number;
  sequence?: number | [number, number];
  client_id?: string;
  /** The principal, such as "User:alice". */
  principal?: string;
  node?: number;
  /** The fault fires only on the nth match, or on these matches, counted from 1. */
  nth?: number | number[];
  every?: number;
  probability?: number;
  /** The fault fires at most this many times. */
  times?: number;
}

/** A fault in the words of docs/how-to/faults.md, which describes each kind. */
export type Fault = On &
  (
    | { kind: "lose_request" | "lose_ack"; then?: "disconnect" | "silence" }
    | { kind: "error"; code: string | number; after?: boolean }
    | { kind: "delay"; ms: number; after?: boolean }
    | { kind: "disconnect" | "reset"; after?: boolean }
    | { kind: "throttle" | "slow_write" | "slow_reassignment" | "advance"; ms: number }
    | { kind: "reorder"; others?: number }
    | { kind: "cut"; bytes: number; request?: boolean }
    | { kind: "slice"; bytes: number; ms?: number }
    | { kind: "bandwidth"; rate: number }
    | { kind: "corrupt"; bytes?: number; at?: number }
    | { kind: "close"; ms?: number }
    | { kind: "withdraw_acl"; acl: string }
    | { kind: "expire_transactional_id" | "fence"; transactional_id: string }
    | { kind: "restart"; mode?: "clean" | "kill" }
    | { kind: "upgrade"; to: string; ms?: number }
    | { kind: "truncate"; topic: string; partition: number; offset: number }
    | { kind: "stall_handshake" | "expire_certificate"; ms?: number; listener?: string }
    | { kind: "observe" | "refuse" | "fail_write" | "disk_full" | "crash_after_write" | "expire_producer" }
    | { kind: "expire_session" | "expire_member" | "move_leader" | "move_coordinator" | "lose_coordinator" }
  );
