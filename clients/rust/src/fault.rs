use std::time::Duration;

use serde_json::{Map, Value};

/// A fault in the words of docs/how-to/faults.md, which describes each kind. Required options are arguments, `with` sets the
/// other options, and the other methods choose the requests: `Fault::lose_ack().api("Produce").topic("orders").nth(1)`.
#[derive(Clone, Debug)]
pub struct Fault {
    pub(crate) words: Map<String, Value>,
}

impl Fault {
    fn new(kind: &str) -> Self {
        Self { words: Map::new() }.with("kind", kind)
    }

    fn lasting(kind: &str, by: Duration) -> Self {
        Self::new(kind).with("ms", by.as_millis() as u64)
    }

    /// Sets an option of the fault, such as `with("then", "silence")`.
    pub fn with(mut self, option: &str, value: impl Into<Value>) -> Self {
        self.words.insert(option.into(), value.into());
        self
    }

    /// Lets the broker handle the request before the fault (error, delay, disconnect or reset_connection) takes effect.
    pub fn after(self) -> Self {
        self.with("after", true)
    }

    /// Kafka's name of a request, such as "Produce".
    pub fn api(self, api: &str) -> Self {
        self.with("api", api)
    }

    pub fn topic(self, topic: &str) -> Self {
        self.with("topic", topic)
    }

    pub fn partition(self, partition: u32) -> Self {
        self.with("partition", partition)
    }

    pub fn group(self, group: &str) -> Self {
        self.with("group", group)
    }

    pub fn transactional_id(self, transactional_id: &str) -> Self {
        self.with("transactional_id", transactional_id)
    }

    pub fn client_id(self, client_id: &str) -> Self {
        self.with("client_id", client_id)
    }

    /// The principal, such as "User:alice".
    pub fn principal(self, principal: &str) -> Self {
        self.with("principal", principal)
    }

    pub fn node(self, node: i32) -> Self {
        self.with("node", node)
    }

    /// The fault fires only on the nth match, counted from 1.
    pub fn nth(self, nth: u32) -> Self {
        self.with("nth", nth)
    }

    pub fn every(self, every: u32) -> Self {
        self.with("every", every)
    }

    /// The fault fires at most this many times.
    pub fn times(self, times: u32) -> Self {
        self.with("times", times)
    }

    pub fn probability(self, probability: f64) -> Self {
        self.with("probability", probability)
    }
}

/// The kinds of faults.
impl Fault {
    pub fn lose_request() -> Self {
        Self::new("lose_request")
    }

    pub fn lose_ack() -> Self {
        Self::new("lose_ack")
    }

    pub fn error(code: &str) -> Self {
        Self::new("error").with("code", code)
    }

    pub fn delay(by: Duration) -> Self {
        Self::lasting("delay", by)
    }

    pub fn disconnect() -> Self {
        Self::new("disconnect")
    }

    pub fn throttle(by: Duration) -> Self {
        Self::lasting("throttle", by)
    }

    pub fn reorder(others: u32) -> Self {
        Self::new("reorder").with("others", others)
    }

    pub fn observe() -> Self {
        Self::new("observe")
    }

    pub fn cut(bytes: u32) -> Self {
        Self::new("cut").with("bytes", bytes)
    }

    pub fn slice(bytes: u32) -> Self {
        Self::new("slice").with("bytes", bytes)
    }

    pub fn bandwidth(rate: u32) -> Self {
        Self::new("bandwidth").with("rate", rate)
    }

    pub fn corrupt(bytes: u32) -> Self {
        Self::new("corrupt").with("bytes", bytes)
    }

    pub fn reset_connection() -> Self {
        Self::new("reset")
    }

    pub fn refuse() -> Self {
        Self::new("refuse")
    }

    pub fn close() -> Self {
        Self::new("close")
    }

    pub fn fail_write() -> Self {
        Self::new("fail_write")
    }

    pub fn slow_write(by: Duration) -> Self {
        Self::lasting("slow_write", by)
    }

    pub fn disk_full() -> Self {
        Self::new("disk_full")
    }

    pub fn crash_after_write() -> Self {
        Self::new("crash_after_write")
    }

    pub fn expire_producer() -> Self {
        Self::new("expire_producer")
    }

    pub fn expire_session() -> Self {
        Self::new("expire_session")
    }

    pub fn withdraw_acl(acl: &str) -> Self {
        Self::new("withdraw_acl").with("acl", acl)
    }

    pub fn expire_transactional_id(transactional_id: &str) -> Self {
        Self::new("expire_transactional_id").with("transactional_id", transactional_id)
    }

    pub fn fence(transactional_id: &str) -> Self {
        Self::new("fence").with("transactional_id", transactional_id)
    }

    pub fn slow_reassignment(by: Duration) -> Self {
        Self::lasting("slow_reassignment", by)
    }

    pub fn expire_member() -> Self {
        Self::new("expire_member")
    }

    pub fn move_leader() -> Self {
        Self::new("move_leader")
    }

    pub fn move_coordinator() -> Self {
        Self::new("move_coordinator")
    }

    pub fn advance_clock(by: Duration) -> Self {
        Self::lasting("advance", by)
    }

    pub fn restart() -> Self {
        Self::new("restart")
    }

    pub fn upgrade(to: &str) -> Self {
        Self::new("upgrade").with("to", to)
    }

    pub fn truncate(topic: &str, partition: u32, offset: u64) -> Self {
        Self::new("truncate").topic(topic).partition(partition).with("offset", offset)
    }

    pub fn lose_coordinator() -> Self {
        Self::new("lose_coordinator")
    }

    pub fn stall_handshake() -> Self {
        Self::new("stall_handshake")
    }

    pub fn expire_certificate() -> Self {
        Self::new("expire_certificate")
    }
}
