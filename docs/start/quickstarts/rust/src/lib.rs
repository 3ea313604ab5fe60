//! The code under test.
use std::sync::Mutex;
use std::time::Duration;

use rdkafka::client::ClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext};

/// The outcome of the record. `flush` succeeds even if the record could not be delivered, so a caller must read this, too.
#[derive(Default)]
struct Outcome(Mutex<Option<KafkaResult<()>>>);

impl ClientContext for Outcome {}

impl ProducerContext for Outcome {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, _: ()) {
        *self.0.lock().unwrap() = Some(result.as_ref().map(|_| ()).map_err(|(error, _)| error.clone()));
    }
}

pub fn send_order(bootstrap: &str, id: &str, order: &str) -> KafkaResult<()> {
    let producer: BaseProducer<Outcome> = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("enable.idempotence", "true")
        .create_with_context(Outcome::default())?;
    let record = BaseRecord::to("orders").key(id).payload(order);
    producer.send(record).map_err(|(error, _)| error)?;
    producer.flush(Duration::from_secs(20))?;
    let outcome = producer.context().0.lock().unwrap().take();
    outcome.unwrap_or(Err(KafkaError::MessageProduction(RDKafkaErrorCode::MessageTimedOut)))
}
