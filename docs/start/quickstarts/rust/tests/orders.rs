use orders::send_order;
use wirebroker::{Fault, Record};

#[test]
fn a_lost_acknowledgement_doubles_nothing() {
    let broker = wirebroker::reset(&["orders:3"]);
    let lost = broker.add_fault(Fault::lose_ack().api("Produce").topic("orders").nth(1));

    send_order(&broker.bootstrap, "order-1", "a pound of tea").unwrap();

    lost.assert_fired();
    assert_eq!(broker.verdicts("orders"), ["accepted", "duplicate"]);
    broker.assert_records("orders", &[Record::new("order-1", "a pound of tea")]);
}

#[test]
fn an_order_that_is_refused_is_an_error() {
    let broker = wirebroker::reset(&["orders:3"]);
    broker.add_fault(Fault::error("MESSAGE_TOO_LARGE").api("Produce").topic("orders"));

    assert!(send_order(&broker.bootstrap, "order-1", "a pound of tea").is_err());
    broker.assert_records("orders", &[]);
}
