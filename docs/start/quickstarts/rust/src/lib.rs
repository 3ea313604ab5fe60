//! The code under test.
use std::time::Duration;

use rdkafka::config::ClientConfig;
use rdkafka::error::KafkaResult;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

pub fn send_order(bootstrap: &str, id: &str, order: &str) -> KafkaResult<()> {
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("enable.idempotence", "true")
        .create()?;
    let record = BaseRecord::to("orders").key(id).payload(order);
    producer.send(record).map_err(|(error, _)| error)?;
    producer.flush(Duration::from_secs(20))
}
