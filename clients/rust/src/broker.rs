use std::env;
use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::{json, Value};

use crate::find::find;
use crate::{Fault, Record, Stored};

/// A running broker. If the broker refuses a call, the call panics with the broker's explanation.
pub struct Broker {
    /// The address for clients.
    pub bootstrap: String,
    /// The address of the HTTP control.
    pub control: String,
    process: Option<Child>, // None: another program has started it
}

impl Broker {
    /// Attaches to the broker that the environment names, or starts one.
    #[track_caller]
    pub(crate) fn common() -> Self {
        let named = |variable| env::var(variable).unwrap_or_default();
        match (named("WIREBROKER_BOOTSTRAP"), named("WIREBROKER_CONTROL")) {
            (bootstrap, control) if bootstrap.is_empty() && control.is_empty() => Self::start(&[]),
            (bootstrap, control) if bootstrap.is_empty() || control.is_empty() => {
                panic!("WIREBROKER_BOOTSTRAP and WIREBROKER_CONTROL name a running broker together; only one of them is set")
            }
            (bootstrap, control) => Self { bootstrap, control, process: None },
        }
    }

    #[track_caller]
    pub(crate) fn start(options: &[&str]) -> Self {
        let program =
            find(&|variable| env::var(variable).ok(), include_str!("release.json")).unwrap_or_else(|why| panic!("{why}"));
        let mut command = Command::new(program);
        command.args(["serve", "--port", "0", "--control", "0", "--ready", "json", "--exit-with-parent"]).args(options);
        command.stdin(Stdio::piped()); // its end tells the broker that this process has ended
        let spawned = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut process = spawned.unwrap_or_else(|why| panic!("{command:?} did not start: {why}"));
        let mut messages = process.stderr.take().unwrap();
        let messages = thread::spawn(move || {
            let mut text = String::new();
            messages.read_to_string(&mut text).map(|_| text).unwrap_or_default()
        });
        let mut line = String::new();
        let _ = BufReader::new(process.stdout.take().unwrap()).read_line(&mut line);
        let Ok(ready) = serde_json::from_str::<Value>(&line) else {
            panic!("{command:?} did not start: {}", messages.join().unwrap_or_default());
        };
        let address = |name: &str| ready[name].as_str().unwrap_or_default().to_owned();
        Self { bootstrap: address("bootstrap"), control: address("control"), process: Some(process) }
    }

    /// Empties the broker, whose clients stay connected, and makes sure that it has the topics.
    #[track_caller]
    pub(crate) fn begin(&self, topics: &[&str]) {
        let name = thread::current().name().unwrap_or_default().to_owned();
        self.ask("POST", "/tests", Some(json!({"name": name, "topics": topics})));
    }

    /// Calls an endpoint of the control.
    #[track_caller]
    pub fn ask(&self, method: &str, path: &str, body: Option<Value>) -> Value {
        match self.send(method, path, body) {
            Ok(value) => value,
            Err(why) => panic!("{why}"), // not in a closure: the message names the caller's line
        }
    }

    /// The JSON of the response. An error's JSON has the broker's explanation.
    fn send(&self, method: &str, path: &str, body: Option<Value>) -> Result<Value, Box<dyn Error>> {
        let host = self.control.trim_start_matches("http://");
        let body = body.map(|value| value.to_string()).unwrap_or_default();
        let accept = "Accept: application/json";
        let head = format!("{method} {path} HTTP/1.0\r\nHost: {host}\r\n{accept}\r\nContent-Length: {}", body.len());
        let mut stream = TcpStream::connect(host)?;
        stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes())?; // at once: the system delays small pieces
        let mut response = String::new();
        stream.read_to_string(&mut response)?;
        let (head, text) = response.split_once("\r\n\r\n").unwrap_or_default();
        let value: Value = serde_json::from_str(text)?;
        match head.split(' ').nth(1) {
            Some(status) if status.starts_with('2') => Ok(value),
            _ => {
                let problem = value["detail"].as_str().unwrap_or(text);
                Err((problem.to_owned() + &self.age(problem)?).into())
            }
        }
    }

    /// If the broker lacks a path, names the versions of the broker and the crate: an older broker has fewer paths.
    fn age(&self, problem: &str) -> Result<String, Box<dyn Error>> {
        if !problem.starts_with("there is nothing at ") {
            return Ok(String::new());
        }
        let document = self.send("GET", "/openapi.json", None)?;
        let found = document["info"]["version"].as_str().unwrap_or_default();
        let own = env!("CARGO_PKG_VERSION");
        let versions = format!("the broker is wirebroker {found}, and this library belongs to wirebroker {own}");
        Ok(format!("; {versions}: if the broker is older, install the library's version, or set WIREBROKER to its program"))
    }

    /// Returns the broker's report as text: what happened since the test began.
    pub fn report(&self) -> String {
        let seen = self.send("GET", "/report", None).unwrap_or_else(|why| json!({ "text": why.to_string() }));
        seen["text"].as_str().unwrap_or_default().to_owned()
    }

    /// Loads a fault, which applies from the next request on and until the next test.
    #[track_caller]
    pub fn add_fault(&self, fault: Fault) -> Rule<'_> {
        let loaded = self.ask("POST", "/faults", Some(Value::Object(fault.words)));
        Rule { broker: self, path: format!("/faults/{}", loaded["id"]) }
    }

    /// Stores records without a client. A record without a partition goes to partition 0.
    #[track_caller]
    pub fn produce(&self, topic: &str, records: &[Record]) {
        let records: Vec<_> = records.iter().map(Record::stored).collect();
        self.ask("POST", &format!("/topics/{topic}/records"), Some(json!({ "records": records })));
    }

    /// Returns the committed records of a topic, in the order of partition and offset.
    #[track_caller]
    pub fn records(&self, topic: &str) -> Vec<Stored> {
        let mut records = Vec::new();
        let mut next = Some(format!("/topics/{topic}/records?committed=true"));
        while let Some(path) = next {
            let page = self.ask("GET", &path, None);
            records.extend(page["records"].as_array().into_iter().flatten().map(Stored::from));
            next = page["next"].as_str().map(str::to_owned);
        }
        records
    }

    /// Waits until the topic has as many committed records as expected, and compares them, in any order.
    #[track_caller]
    pub fn assert_records(&self, topic: &str, expected: &[Record]) {
        let records: Vec<_> = expected.iter().map(Record::expected).collect();
        self.ask("POST", &format!("/topics/{topic}/records/assert"), Some(json!({"records": records, "in_order": false})));
    }

    /// Returns the broker's verdict on each produced batch of a topic: "accepted", "duplicate" or "rejected".
    #[track_caller]
    pub fn verdicts(&self, topic: &str) -> Vec<String> {
        let seen = self.ask("GET", &format!("/verdicts?topic={topic}"), None);
        let rows = seen["verdicts"].as_array().into_iter().flatten();
        rows.map(|row| row["verdict"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Stops a broker as kill -9 does, until `start_broker`. A single broker has the node id 1.
    #[track_caller]
    pub fn kill_broker(&self, node: i32) {
        self.ask("POST", &format!("/brokers/{node}/kill"), None);
    }

    /// Starts a broker that `kill_broker` stopped.
    #[track_caller]
    pub fn start_broker(&self, node: i32) {
        self.ask("POST", &format!("/brokers/{node}/start"), None);
    }

    /// Moves the broker's clock: sessions and transactions time out, records and offsets expire.
    #[track_caller]
    pub fn advance(&self, by: Duration) {
        self.ask("POST", "/clock/advance", Some(json!({"milliseconds": by.as_millis() as u64})));
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ = process.wait(); // it closes the broker's stdin, so the broker ends and closes its files
        }
    }
}

/// A fault that the broker has loaded.
pub struct Rule<'a> {
    broker: &'a Broker,
    path: String,
}

impl Rule<'_> {
    /// Waits until the fault has fired this many times.
    #[track_caller]
    pub fn wait_fired(&self, times: u32, timeout: Duration) {
        let path = format!("{}/wait?times={times}&timeout={}", self.path, timeout.as_secs_f64());
        self.broker.ask("GET", &path, None);
    }

    /// Panics if the fault has not fired.
    #[track_caller]
    pub fn assert_fired(&self) {
        self.broker.ask("GET", &format!("{}/assert-fired", self.path), None);
    }
}
