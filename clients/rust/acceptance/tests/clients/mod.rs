//! The tests' clients.
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rdkafka::client::ClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext};
use wirebroker::Broker;

pub const WITHIN: Duration = Duration::from_secs(20);

/// The result of sending the latest record.
#[derive(Default)]
pub struct Outcome(Mutex<Option<KafkaResult<()>>>);

impl ClientContext for Outcome {}

impl ProducerContext for Outcome {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, _: ()) {
        *self.0.lock().unwrap() = Some(result.as_ref().map(|_| ()).map_err(|(error, _)| error.clone()));
    }
}

fn settings(broker: &Broker, more: &[(&str, &str)]) -> ClientConfig {
    let mut settings = ClientConfig::new();
    settings.set("bootstrap.servers", &broker.bootstrap).set("reconnect.backoff.max.ms", "100");
    for (name, value) in more {
        settings.set(*name, *value);
    }
    settings
}

pub fn producer(broker: &Broker, more: &[(&str, &str)]) -> BaseProducer<Outcome> {
    settings(broker, more).set("enable.idempotence", "true").create_with_context(Outcome::default()).unwrap()
}

pub fn record<'a>(key: &'a str, value: &'a str) -> BaseRecord<'a, str, str> {
    BaseRecord::to("orders").key(key).payload(value)
}

pub fn send(producer: &BaseProducer<Outcome>, record: BaseRecord<'_, str, str>) -> KafkaResult<()> {
    producer.send(record).map_err(|(error, _)| error)?;
    producer.flush(WITHIN)?;
    let outcome = producer.context().0.lock().unwrap().take();
    outcome.unwrap_or(Err(KafkaError::MessageProduction(RDKafkaErrorCode::MessageTimedOut)))
}

/// A consumer of the topic orders in this group, which commits nothing on its own.
pub fn consumer(broker: &Broker, group: &str, more: &[(&str, &str)]) -> BaseConsumer {
    let made: BaseConsumer = settings(broker, more)
        .set("group.id", group)
        .set("enable.auto.commit", "false")
        .set("auto.offset.reset", "earliest")
        .set("heartbeat.interval.ms", "100")
        .create()
        .unwrap();
    made.subscribe(&["orders"]).unwrap();
    made
}

pub fn member(broker: &Broker, group: &str) -> BaseConsumer {
    consumer(broker, group, &[])
}

/// Polls until this many records have arrived, and returns their values.
pub fn poll(consumer: &BaseConsumer, count: usize) -> Vec<String> {
    let mut values = Vec::new();
    until(|| {
        if let Some(Ok(message)) = consumer.poll(Duration::from_millis(100)) {
            values.push(message.payload_view::<str>().unwrap().unwrap().to_owned());
        }
        values.len() >= count
    });
    values
}

/// Polls once, and returns the number of the consumer's partitions.
pub fn polled(consumer: &BaseConsumer) -> usize {
    consumer.poll(Duration::from_millis(50));
    consumer.assignment().unwrap().count()
}

pub fn until(mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + WITHIN;
    while !holds() {
        assert!(Instant::now() < end, "waited {WITHIN:?} in vain");
    }
}
