//! A broker for one test.
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use ureq::http::Response;
use ureq::Body;

pub struct Wirebroker {
    pub bootstrap: String,
    control: String,
    process: Child,
}

impl Wirebroker {
    /// Starts a broker on free ports; it ends when the value is dropped.
    pub fn start(options: &[&str]) -> Self {
        let program = std::env::var("WIREBROKER").unwrap_or_else(|_| "wirebroker".into());
        let mut process = Command::new(program)
            .args(["serve", "--port", "0", "--control", "0", "--exit-with-parent"])
            .args(options)
            .stdin(Stdio::piped()) // its end tells wirebroker that this process has ended
            .stdout(Stdio::piped())
            .spawn()
            .expect("wirebroker starts; install it with `pip install './wirebroker[control]'`, or name it in WIREBROKER");
        let (mut bootstrap, mut control) = (String::new(), String::new());
        for line in BufReader::new(process.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["listening", "on", address, ..] => bootstrap = address.into(),
                ["control", "on", address, ..] => control = address.into(),
                ["ready"] => return Self { bootstrap, control, process },
                _ => {}
            }
        }
        panic!("wirebroker did not start");
    }

    pub fn get(&self, path: &str) -> Value {
        told(path, ureq::get(format!("{}{path}", self.control)).config().http_status_as_error(false).build().call())
    }

    pub fn post(&self, path: &str, body: Value) -> Value {
        told(path, ureq::post(format!("{}{path}", self.control)).config().http_status_as_error(false).build().send_json(body))
    }
}

/// The control's response. An error says why: its body has the explanation.
fn told(path: &str, response: Result<Response<Body>, ureq::Error>) -> Value {
    let mut response = response.unwrap();
    let (status, text) = (response.status(), response.body_mut().read_to_string().unwrap());
    assert!(status.is_success(), "{path}: {status}: {text}");
    serde_json::from_str(&text).unwrap()
}

impl Drop for Wirebroker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
