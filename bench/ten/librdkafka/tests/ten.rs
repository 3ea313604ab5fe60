//! The ten tests of clients/rust/acceptance against librdkafka's mock cluster, as far as the mock cluster can express them.
use std::sync::Mutex;
use std::thread::scope;
use std::time::{Duration, Instant};

use rdkafka::client::ClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Header, Headers, Message, OwnedHeaders};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, BaseRecord, DefaultProducerContext, DeliveryResult, Producer, ProducerContext};
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

type Cluster = MockCluster<'static, DefaultProducerContext>;

const WITHIN: Duration = Duration::from_secs(30);

#[test]
fn produce_and_consume() {
    let broker = start(3);
    let producer = producer(&broker, &[]);
    send(&producer, record("order-1", "tea")).unwrap();
    send(&producer, record("order-2", "salt")).unwrap();
    expect(&broker, &["salt", "tea"]);
}

#[test]
#[ignore = "no response can be lost after its batch is stored"]
fn a_lost_acknowledgement_doubles_nothing() {}

#[test]
fn a_record_comes_again_after_a_crash() {
    let broker = start(3);
    send(&producer(&broker, &[]), record("order-1", "tea")).unwrap();
    let first = member(&broker, "crash", &[("group.instance.id", "first")]);
    assert_eq!(poll(&first, 1), ["tea"]);
    drop(first); // before a commit; the session ends after a second
    assert_eq!(poll(&member(&broker, "crash", &[]), 1), ["tea"]);
}

#[test]
fn a_rebalance_divides_the_partitions() {
    let broker = start(2);
    let first = member(&broker, "rebalance", &[]);
    until(|| polled(&first) == 2);
    let second = member(&broker, "rebalance", &[]);
    until(|| (polled(&first), polled(&second)) == (1, 1));
}

#[test]
#[ignore = "consumers read the records of aborted transactions"]
fn an_aborted_transaction_leaves_nothing() {}

#[test]
fn an_error_three_times() {
    let broker = start(3);
    broker.request_errors(RDKafkaApiKey::Produce, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS; 3]);
    send(&producer(&broker, &[]), record("order-1", "tea")).unwrap();
    expect(&broker, &["tea"]);
}

#[test]
fn a_slow_broker() {
    let broker = start(3);
    broker.broker_round_trip_time(1, Duration::from_millis(300)).unwrap();
    let began = Instant::now();
    send(&producer(&broker, &[]), record("order-1", "tea")).unwrap();
    assert!(began.elapsed() >= Duration::from_millis(300));
}

#[test]
fn the_broker_is_down_and_comes_back() {
    let broker = start(3);
    let producer = producer(&broker, &[]);
    send(&producer, record("order-1", "tea")).unwrap();
    broker.broker_down(1).unwrap();
    scope(|threads| {
        let sent = threads.spawn(|| send(&producer, record("order-2", "salt")));
        std::thread::sleep(Duration::from_millis(200));
        assert!(!sent.is_finished(), "sent to a broker that is down");
        broker.broker_up(1).unwrap();
        sent.join().unwrap().unwrap();
    });
    expect(&broker, &["salt", "tea"]);
}

#[test]
fn denied() {
    let broker = start(3);
    broker.request_errors(RDKafkaApiKey::Produce, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED]);
    let refused = send(&producer(&broker, &[]), record("order-1", "tea")).unwrap_err();
    assert_eq!(refused.rdkafka_error_code(), Some(RDKafkaErrorCode::TopicAuthorizationFailed));
    send(&producer(&broker, &[]), record("order-1", "tea")).unwrap();
    expect(&broker, &["tea"]);
}

#[test]
fn records_with_headers() {
    let broker = start(3);
    let trace = OwnedHeaders::new().insert(Header { key: "trace", value: Some("abc-7") });
    send(&producer(&broker, &[]), record("order-1", "tea").headers(trace)).unwrap();
    let reader = member(&broker, "headers", &[]);
    let mut seen = false;
    until(|| {
        seen |= reader.poll(Duration::from_millis(100)).is_some_and(|message| has_the_header(&message.unwrap()));
        seen
    });
}

fn has_the_header(message: &BorrowedMessage<'_>) -> bool {
    let header = message.headers().unwrap().get_as::<str>(0).unwrap();
    (message.key(), header.key, header.value) == (Some(b"order-1".as_slice()), "trace", Some("abc-7"))
}

fn start(partitions: i32) -> Cluster {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("orders", partitions, 1).unwrap();
    cluster
}

/// Reads the committed records of the topic, and fails if there are other records than these.
fn expect(broker: &Cluster, wanted: &[&str]) {
    let reader = member(broker, "reader", &[]);
    let mut got = poll(&reader, wanted.len());
    got.sort();
    assert_eq!(got, wanted);
    assert!(reader.poll(Duration::from_millis(300)).is_none());
}

/// The outcome of the record that was sent last.
#[derive(Default)]
struct Outcome(Mutex<Option<KafkaResult<()>>>);

impl ClientContext for Outcome {}

impl ProducerContext for Outcome {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, _: ()) {
        *self.0.lock().unwrap() = Some(result.as_ref().map(|_| ()).map_err(|(error, _)| error.clone()));
    }
}

fn settings(broker: &Cluster, more: &[(&str, &str)]) -> ClientConfig {
    let mut settings = ClientConfig::new();
    settings.set("bootstrap.servers", broker.bootstrap_servers()).set("reconnect.backoff.max.ms", "100");
    for (name, value) in more {
        settings.set(*name, *value);
    }
    settings
}

fn producer(broker: &Cluster, more: &[(&str, &str)]) -> BaseProducer<Outcome> {
    settings(broker, more).set("enable.idempotence", "true").create_with_context(Outcome::default()).unwrap()
}

fn record<'a>(key: &'a str, value: &'a str) -> BaseRecord<'a, str, str> {
    BaseRecord::to("orders").key(key).payload(value)
}

fn send(producer: &BaseProducer<Outcome>, record: BaseRecord<'_, str, str>) -> KafkaResult<()> {
    producer.send(record).map_err(|(error, _)| error)?;
    producer.flush(WITHIN)?;
    let outcome = producer.context().0.lock().unwrap().take();
    outcome.unwrap_or(Err(KafkaError::MessageProduction(RDKafkaErrorCode::MessageTimedOut)))
}

fn member(broker: &Cluster, group: &str, more: &[(&str, &str)]) -> BaseConsumer {
    let made: BaseConsumer = settings(broker, more)
        .set("group.id", group)
        .set("enable.auto.commit", "false")
        .set("auto.offset.reset", "earliest")
        .set("heartbeat.interval.ms", "100")
        .set("session.timeout.ms", "6000") // the clock cannot be moved, and the first rebalance takes 3 s
        .create()
        .unwrap();
    made.subscribe(&["orders"]).unwrap();
    made
}

fn poll(consumer: &BaseConsumer, count: usize) -> Vec<String> {
    let mut values = Vec::new();
    until(|| {
        if let Some(Ok(message)) = consumer.poll(Duration::from_millis(100)) {
            values.push(message.payload_view::<str>().unwrap().unwrap().to_owned());
        }
        values.len() >= count
    });
    values
}

fn polled(consumer: &BaseConsumer) -> usize {
    consumer.poll(Duration::from_millis(50));
    consumer.assignment().unwrap().count()
}

fn until(mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + WITHIN;
    while !holds() {
        assert!(Instant::now() < end, "waited {WITHIN:?} in vain");
    }
}
