//! A Kafka broker for tests, which speaks the real protocol and fails on demand.
//!
//! ```no_run
//! use wirebroker::{Fault, Record};
//!
//! let broker = wirebroker::reset(&["orders:3"]);
//! let lost = broker.add_fault(Fault::lose_ack().api("Produce").topic("orders").nth(1));
//! // the code under test sends an order to broker.bootstrap
//! lost.assert_fired();
//! broker.assert_records("orders", &[Record::new("order-1", "a pound of tea")]);
//! ```
mod broker;
mod fault;
mod find;
mod record;

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

pub use broker::{Broker, Rule};
pub use fault::Fault;
pub use record::{json, regex, subset, Data, Record, Stored, NULL};

static SHARED: Mutex<Option<Arc<Broker>>> = Mutex::new(None);

/// A test's broker. If the test fails, it prints the broker's report.
pub struct Session {
    broker: Arc<Broker>,
    _turn: Option<MutexGuard<'static, Option<Arc<Broker>>>>,
}

/// Empties the broker that all tests of the process share, makes sure that it has the topics ("orders" or "orders:3", for 3
/// partitions), and returns it. Clients stay connected. Other tests that share the broker wait until the value is dropped. The
/// shared broker is the running broker that the environment names, if there is one.
#[track_caller]
pub fn reset(topics: &[&str]) -> Session {
    let mut turn = SHARED.lock().unwrap_or_else(PoisonError::into_inner); // a test that failed left it poisoned
    let broker = turn.get_or_insert_with(|| Arc::new(Broker::common())).clone();
    broker.begin(topics);
    Session { broker, _turn: Some(turn) }
}

/// Starts a broker for this test alone, with flags of `wirebroker serve`. The broker ends when the value is dropped.
#[track_caller]
pub fn start(options: &[&str]) -> Session {
    let broker = Arc::new(Broker::start(options));
    broker.begin(&[]);
    Session { broker, _turn: None }
}

impl Deref for Session {
    type Target = Broker;

    fn deref(&self) -> &Broker {
        &self.broker
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if thread::panicking() {
            println!("{}", self.broker.report()); // captured, like everything that the test prints
        }
    }
}
