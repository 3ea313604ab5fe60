//! The ten tests that every library has, here with rdkafka.
mod clients;

use std::collections::HashMap;
use std::thread::scope;
use std::time::{Duration, Instant};

use clients::{consumer, member, poll, polled, producer, record, send, until, WITHIN};
use rdkafka::consumer::Consumer;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::Producer;
use rdkafka::{Offset, TopicPartitionList};
use serde_json::json;
use wirebroker::{regex, subset, Fault, Record};

#[test]
fn produce_and_consume() {
    let broker = wirebroker::reset(&["orders:3"]);
    let producer = producer(&broker, &[]);
    send(&producer, record("order-1", "tea")).unwrap();
    send(&producer, record("order-2", "salt")).unwrap();

    broker.assert_records("orders", &[Record::new("order-1", "tea"), Record::new("order-2", "salt")]);
    let mut got = poll(&member(&broker, "produce-and-consume"), 2);
    got.sort();
    assert_eq!(got, ["salt", "tea"]);
}

#[test]
fn a_lost_acknowledgement_doubles_nothing() {
    let broker = wirebroker::reset(&["orders:3"]);
    let lost = broker.add_fault(Fault::lose_ack().api("Produce").topic("orders").nth(1));
    send(&producer(&broker, &[]), record("order-1", "tea")).unwrap();

    lost.assert_fired();
    assert_eq!(broker.verdicts("orders"), ["accepted", "duplicate"]);
    broker.assert_records("orders", &[Record::new("order-1", "tea")]);
}

#[test]
fn a_record_comes_again_after_a_crash() {
    let broker = wirebroker::reset(&["orders:3"]);
    broker.produce("orders", &[Record::new("order-1", "tea")]);
    // With an instance id, a member that ends does not leave its group: the coordinator waits for it, as after a crash.
    let first = consumer(&broker, "crash", &[("group.instance.id", "first")]);
    assert_eq!(poll(&first, 1), ["tea"]);
    drop(first); // before a commit

    broker.advance(Duration::from_secs(60)); // the session of the member ends
    assert_eq!(poll(&member(&broker, "crash"), 1), ["tea"]);
}

#[test]
fn a_rebalance_divides_the_partitions() {
    let broker = wirebroker::start(&["--topic", "orders:2"]);
    let first = member(&broker, "rebalance");
    until(|| polled(&first) == 2);
    let second = member(&broker, "rebalance");
    until(|| (polled(&first), polled(&second)) == (1, 1));
    assert_ne!(first.assignment().unwrap(), second.assignment().unwrap());
}

#[test]
fn an_aborted_transaction_leaves_nothing() {
    let broker = wirebroker::reset(&["orders:3", "invoices:1"]);
    broker.produce("orders", &[Record::new("order-1", "tea")]);
    let consumer = member(&broker, "invoices");
    let producer = producer(&broker, &[("transactional.id", "invoices")]);
    producer.init_transactions(WITHIN).unwrap();
    for commits in [false, true] {
        // the first attempt fails, and its input comes again
        let order = poll(&consumer, 1).remove(0);
        producer.begin_transaction().unwrap();
        let invoice = format!("invoice for {order}");
        let mut sent = record("order-1", &invoice);
        sent.topic = "invoices";
        send(&producer, sent).unwrap();
        let group = consumer.group_metadata().unwrap();
        producer.send_offsets_to_transaction(&consumer.position().unwrap(), &group, WITHIN).unwrap();
        if commits {
            producer.commit_transaction(WITHIN).unwrap();
        } else {
            producer.abort_transaction(WITHIN).unwrap();
            let all = (0..3).map(|partition| (("orders".to_owned(), partition), Offset::Beginning)).collect::<HashMap<_, _>>();
            consumer.seek_partitions(TopicPartitionList::from_topic_map(&all).unwrap(), WITHIN).unwrap();
        }
    }
    broker.assert_records("invoices", &[Record::new("order-1", "invoice for tea")]);
    let all = broker.ask("GET", "/topics/invoices/records", None);
    assert_eq!(all["records"].as_array().unwrap().len(), 4); // two attempts and the markers of their ends
}

#[test]
fn an_error_three_times() {
    let broker = wirebroker::reset(&["orders:3"]);
    let refused = broker.add_fault(Fault::error("NOT_ENOUGH_REPLICAS").api("Produce").topic("orders").times(3));
    send(&producer(&broker, &[]), record("order-1", "tea")).unwrap();

    refused.wait_fired(3, Duration::from_secs(5));
    broker.assert_records("orders", &[Record::new("order-1", "tea")]);
}

#[test]
fn a_slow_broker() {
    let broker = wirebroker::reset(&["orders:3"]);
    let slow = broker.add_fault(Fault::delay(Duration::from_millis(300)).api("Produce").topic("orders"));
    let began = Instant::now();
    send(&producer(&broker, &[]), record("order-1", "tea")).unwrap();

    slow.assert_fired();
    assert!(began.elapsed() >= Duration::from_millis(300));
}

#[test]
fn the_broker_is_down_and_comes_back() {
    let broker = wirebroker::reset(&["orders:3"]);
    let producer = producer(&broker, &[]);
    send(&producer, record("order-1", "tea")).unwrap();
    broker.kill_broker(1);
    scope(|threads| {
        let sent = threads.spawn(|| send(&producer, record("order-2", "salt")));
        std::thread::sleep(Duration::from_millis(200));
        assert!(!sent.is_finished(), "sent to a broker that is down");
        broker.start_broker(1);
        sent.join().unwrap().unwrap();
    });
    broker.assert_records("orders", &[Record::value("tea"), Record::value("salt")]);
}

#[test]
fn denied() {
    let allowed = ["allow User:ANONYMOUS ALL TOPIC *", "allow User:ANONYMOUS IDEMPOTENT_WRITE CLUSTER kafka-cluster"];
    let denial = "deny User:ANONYMOUS WRITE TOPIC orders";
    let acls = ["--topic", "orders:3", "--acl", denial, "--acl", allowed[0], "--acl", allowed[1]];
    let broker = wirebroker::start(&acls);
    let refused = send(&producer(&broker, &[]), record("order-1", "tea")).unwrap_err();
    assert_eq!(refused.rdkafka_error_code(), Some(RDKafkaErrorCode::TopicAuthorizationFailed));
    broker.assert_records("orders", &[]);
    broker.ask("DELETE", &format!("/acls?acl={}", denial.replace(' ', "%20")), None);
    send(&producer(&broker, &[]), record("order-1", "tea")).unwrap(); // a producer remembers that it was refused
}

#[test]
fn records_with_headers() {
    let broker = wirebroker::reset(&["orders:3"]);
    let trace = OwnedHeaders::new().insert(Header { key: "trace", value: Some("abc-7") });
    let sent = record("order-1", r#"{"item": "tea", "grams": 500}"#).headers(trace);
    send(&producer(&broker, &[]), sent).unwrap();

    let expected = Record::new(regex("^order-[0-9]+$"), subset(json!({"item": "tea"}))).header("trace", "abc-7");
    broker.assert_records("orders", &[expected]);
    let stored = broker.records("orders").remove(0);
    assert_eq!(stored.key.as_deref(), Some(b"order-1".as_slice()));
    assert_eq!(stored.headers, [("trace".to_owned(), Some(b"abc-7".to_vec()))]);
}
