mod wirebroker;

use orders::send_order;
use serde_json::json;
use wirebroker::Wirebroker;

#[test]
fn a_lost_acknowledgement_doubles_nothing() {
    let broker = Wirebroker::start(&["--topic", "orders:3"]);
    let lost = broker.post("/faults", json!({"kind": "lose_ack", "api": "Produce", "topic": "orders", "nth": 1}));

    send_order(&broker.bootstrap, "order-1", "a pound of tea").unwrap();

    broker.get(&format!("/faults/{}/assert-fired", lost["id"]));
    let seen = broker.get("/verdicts?topic=orders");
    let verdicts: Vec<_> = seen["verdicts"].as_array().unwrap().iter().map(|row| &row["verdict"]).collect();
    assert_eq!(verdicts, ["accepted", "duplicate"]);
    let intended = json!([{"topic": "orders", "key": "order-1", "value": "a pound of tea"}]);
    let audit = broker.post("/audit", json!({"intended": intended}));
    assert_eq!(audit["findings"], json!([]));
}

#[test]
fn an_order_that_is_refused_is_an_error() {
    let broker = Wirebroker::start(&["--topic", "orders:3"]);
    broker.post("/faults", json!({"kind": "error", "code": "MESSAGE_TOO_LARGE", "api": "Produce", "topic": "orders"}));

    assert!(send_order(&broker.bootstrap, "order-1", "a pound of tea").is_err());
}
