//! Tests of what the library does itself, besides calling the control.
use std::panic::catch_unwind;
use std::process::Command;
use std::time::Duration;
use std::{env, fs};

use serde_json::json;
use wirebroker::{json as as_json, regex, subset, Fault, Record, NULL};

#[test]
fn every_kind_of_fault_is_accepted() {
    let second = Duration::from_secs(1);
    let broker = wirebroker::reset(&["orders:3"]);
    for fault in [
        Fault::lose_request(),
        Fault::lose_ack().with("then", "silence"),
        Fault::error("NOT_LEADER_OR_FOLLOWER").after(),
        Fault::delay(second).after(),
        Fault::disconnect().after(),
        Fault::throttle(second),
        Fault::reorder(2),
        Fault::observe(),
        Fault::cut(10),
        Fault::slice(7),
        Fault::bandwidth(1000),
        Fault::corrupt(2),
        Fault::reset_connection().after(),
        Fault::refuse(),
        Fault::close(),
        Fault::fail_write(),
        Fault::slow_write(second),
        Fault::disk_full(),
        Fault::crash_after_write(),
        Fault::expire_producer(),
        Fault::expire_session(),
        Fault::withdraw_acl("allow User:alice WRITE TOPIC orders"),
        Fault::expire_transactional_id("till"),
        Fault::fence("till"),
        Fault::slow_reassignment(second),
        Fault::expire_member(),
        Fault::move_leader(),
        Fault::move_coordinator(),
        Fault::advance_clock(second),
        Fault::restart(),
        Fault::upgrade("kafka-4.4"),
        Fault::truncate("orders", 0, 4),
        Fault::lose_coordinator(),
        Fault::stall_handshake(),
        Fault::expire_certificate(),
    ] {
        broker.add_fault(fault.nth(1000));
    }
    let produce = Fault::observe().api("Produce").topic("orders").partition(0).transactional_id("till").client_id("app");
    broker.add_fault(produce.principal("User:alice").node(1).every(1000).times(3));
    let rule = broker.add_fault(Fault::observe().api("OffsetCommit").group("team").probability(0.5));
    refused("did not fire at all", || rule.assert_fired());
    refused("fire", || rule.wait_fired(1, Duration::from_millis(10)));
    refused("did you mean 'Produce'", || drop(broker.add_fault(Fault::observe().api("Prodce"))));
}

#[test]
fn records_of_every_form() {
    let broker = wirebroker::reset(&["orders:2"]);
    let binary: &[u8] = &[0, 0xff];
    let rich = Record::new("k", "v").partition(1).header("text", "a").header("bytes", binary).header("json", as_json(json!(7)));
    broker.produce("orders", &[rich.clone(), Record::value(binary), Record::new(as_json(json!({"id": 1})), NULL).timestamp(7)]);
    broker.assert_records("orders", &[rich, Record::new(NULL, binary), Record::new(subset(json!({"id": 1})), NULL)]);
    let rest = [Record::new(regex("^k$"), "v"), Record::value(binary), Record::value(NULL)];
    broker.assert_records("orders", &rest);
    let stored = broker.records("orders");
    assert_eq!((&stored[0].key, stored[0].value.as_deref()), (&None, Some(binary)));
    assert_eq!((&stored[1].value, stored[1].timestamp), (&None, 7));
    assert_eq!(stored[2].headers[2], ("json".to_owned(), Some(b"7".to_vec())));
    refused("the records of 'orders' differ", || broker.assert_records("orders", &[]));
}

#[test]
fn a_broker_of_its_own_ends_with_the_value() {
    let data = std::env::temp_dir().join(format!("wirebroker-own-{}", std::process::id()));
    let own = wirebroker::start(&["--topic", "payments:1", "--data", &data.display().to_string()]);
    own.ask("GET", "/topics/payments", None);
    let control = own.control.clone();
    drop(own);
    assert!(std::net::TcpStream::connect(control.trim_start_matches("http://")).is_err());
    assert!(data.join(".kafka_cleanshutdown").exists(), "the broker closed its files");
    std::fs::remove_dir_all(data).unwrap();
}

#[test]
fn a_program_that_does_not_start_says_why() {
    refused("'none' is not a whole number", || drop(wirebroker::start(&["--brokers", "none"])));
}

/// Runs in a process of its own, whose environment names the broker.
#[test]
fn a_given_broker_is_the_shared_one() {
    if let Ok(address) = env::var("WIREBROKER_BOOTSTRAP") {
        assert_ne!(wirebroker::start(&["--topic", "orders"]).bootstrap, address);
        env::set_var("WIREBROKER", "/nowhere");
        wirebroker::reset(&["payments"]).assert_records("orders", &[]);
        return;
    }
    let given = wirebroker::start(&["--topic", "orders"]);
    given.produce("orders", &[Record::value("of an earlier test")]);
    let mut attached = this_test("a_given_broker_is_the_shared_one");
    attached.env("WIREBROKER_BOOTSTRAP", &given.bootstrap).env("WIREBROKER_CONTROL", &given.control);
    let run = attached.output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
    given.ask("GET", "/topics/payments", None);
    let half = attached.env("WIREBROKER_CONTROL", "").output().unwrap();
    assert!(String::from_utf8_lossy(&half.stdout).contains("only one of them is set"));
}

#[test]
fn a_broker_that_lacks_a_path_tells_its_version() {
    let broker = wirebroker::reset(&[]);
    let ask = || drop(broker.ask("POST", "/of-a-later-release", None));
    refused("nothing at /of-a-later-release; / and /openapi.json list all paths; the broker is wirebroker ", ask);
    refused(&format!("and this library belongs to wirebroker {}: if", env!("CARGO_PKG_VERSION")), ask);
}

/// Fails in a process of its own.
#[test]
fn a_failed_test_shows_the_report() {
    if env::var("WIREBROKER_FAIL").is_ok() {
        let broker = wirebroker::reset(&["orders"]);
        broker.produce("orders", &[Record::value("a pound of tea")]);
        broker.assert_records("orders", &[Record::value("salt")]);
    }
    let run = this_test("a_failed_test_shows_the_report").env("WIREBROKER_FAIL", "1").output().unwrap();
    assert!(!run.status.success());
    let shown = String::from_utf8_lossy(&run.stdout);
    assert!(shown.contains("committed key null  value 'a pound of tea'"), "{shown}");
    assert!(shown.contains("panicked at tests/library.rs:"), "{shown}");
}

#[test]
fn the_pinned_release_is_that_of_the_crate() {
    let release: serde_json::Value = serde_json::from_str(&fs::read_to_string("src/release.json").unwrap()).unwrap();
    assert_eq!(release["version"], env!("CARGO_PKG_VERSION"));
}

fn this_test(name: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", name]);
    command
}

fn refused(words: &str, call: impl FnOnce()) {
    let panic = catch_unwind(std::panic::AssertUnwindSafe(call)).expect_err("it was accepted");
    let message = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref().copied()).expect("a text");
    assert!(message.contains(words), "{message}");
}
