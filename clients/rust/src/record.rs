use base64::prelude::{Engine, BASE64_STANDARD};
use serde_json::{json as object, Map, Value};

/// A key, a value or a header's value: a text, bytes, `NULL`, or a result of `json`, `subset` or `regex`.
#[derive(Clone, Debug)]
pub struct Data(Value);

/// The key of a record without a key, and the value of a tombstone.
pub const NULL: Data = Data(Value::Null);

/// A value as JSON.
pub fn json(value: Value) -> Data {
    Data(object!({ "json": value }))
}

/// Expects JSON with at least these fields.
pub fn subset(fields: Value) -> Data {
    Data(object!({ "json_subset": fields }))
}

/// Expects a text in which the pattern matches. The pattern has the syntax of RE2.
pub fn regex(pattern: &str) -> Data {
    Data(object!({ "regex": pattern }))
}

impl From<&str> for Data {
    fn from(text: &str) -> Self {
        Data(text.into())
    }
}

impl From<&[u8]> for Data {
    fn from(bytes: &[u8]) -> Self {
        Data(object!({"base64": BASE64_STANDARD.encode(bytes)}))
    }
}

/// A record to store or to expect. In `assert_records` a part that is not set matches anything.
#[derive(Clone, Debug, Default)]
pub struct Record {
    parts: Map<String, Value>,
    headers: Vec<(String, Value)>,
}

impl Record {
    pub fn new(key: impl Into<Data>, value: impl Into<Data>) -> Self {
        Self::value(value).with("key", key.into().0)
    }

    pub fn value(value: impl Into<Data>) -> Self {
        Self::default().with("value", value.into().0)
    }

    pub fn header(mut self, name: &str, value: impl Into<Data>) -> Self {
        self.headers.push((name.into(), value.into().0));
        self
    }

    pub fn partition(self, partition: u32) -> Self {
        self.with("partition", partition.into())
    }

    /// The timestamp of a record to store, in ms since the epoch.
    pub fn timestamp(self, timestamp: i64) -> Self {
        self.with("timestamp", timestamp.into())
    }

    fn with(mut self, part: &str, value: Value) -> Self {
        self.parts.insert(part.into(), value);
        self
    }

    /// The record as the control compares it: its headers are an object.
    pub(crate) fn expected(&self) -> Value {
        let mut expected = self.parts.clone();
        if !self.headers.is_empty() {
            expected.insert("headers".into(), self.headers.iter().cloned().collect::<Map<_, _>>().into());
        }
        expected.into()
    }

    /// The record as the control stores it: its headers are a list.
    pub(crate) fn stored(&self) -> Value {
        let mut stored = self.parts.clone();
        let headers = self.headers.iter().map(|(name, value)| object!({"name": name, "value": value}));
        stored.insert("headers".into(), headers.collect());
        stored.into()
    }
}

/// A record as the broker stores it. The timestamp is in ms since the epoch.
#[derive(Clone, Debug)]
pub struct Stored {
    pub topic: String,
    pub partition: i64,
    pub offset: i64,
    pub timestamp: i64,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

impl From<&Value> for Stored {
    fn from(record: &Value) -> Self {
        let number = |name: &str| record[name].as_i64().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let bytes = |value: &Value| value["base64"].as_str().and_then(|text| BASE64_STANDARD.decode(text).ok());
        let headers = record["headers"].as_array().into_iter().flatten();
        Self {
            topic: text(&record["topic"]),
            partition: number("partition"),
            offset: number("offset"),
            timestamp: number("timestamp"),
            key: bytes(&record["key"]),
            value: bytes(&record["value"]),
            headers: headers.map(|header| (text(&header["name"]), bytes(&header["value"]))).collect(),
        }
    }
}
