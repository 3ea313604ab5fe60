package wirebrokertest

import (
	"encoding/json"
	"fmt"
	"net/url"
	"testing"
	"time"
)

type object = map[string]any

// Record is a record to store or to expect. A key, a value or the value of a header is a string, Data, or a result of
// JSON, Subset or Regex. In AssertRecords a field that is nil matches anything; Null matches only null.
type Record struct {
	Key       any            `json:"key,omitempty"`
	Value     any            `json:"value,omitempty"`
	Headers   map[string]any `json:"headers,omitempty"`
	Partition *int           `json:"partition,omitempty"`
	Timestamp int64          `json:"timestamp,omitempty"` // ms since the epoch; only of a record to store
}

// Null is the key of a record without a key, and the value of a tombstone.
var Null = json.RawMessage("null")

// JSON is a value as JSON, Subset expects JSON with at least these fields, Regex expects a text in which the pattern matches.
func JSON(value any) any       { return object{"json": value} }
func Subset(fields any) any    { return object{"json_subset": fields} }
func Regex(pattern string) any { return object{"regex": pattern} }

// Data is a stored key, value or header: bytes, or nil for null.
type Data []byte

func (data Data) String() string { return string(data) }

func (data Data) MarshalJSON() ([]byte, error) { return json.Marshal(object{"base64": []byte(data)}) }

func (data *Data) UnmarshalJSON(text []byte) error {
	var held struct{ Base64 []byte }
	err := json.Unmarshal(text, &held)
	*data = held.Base64
	return err
}

// Stored is a record as the broker stores it.
type Stored struct {
	Topic      string
	Partition  int
	Offset     int64
	Timestamp  int64 // ms since the epoch
	Key, Value Data
	Headers    []struct {
		Name  string
		Value Data
	}
}

// Produce stores records without a client. A record without a partition goes to partition 0.
func (broker *Broker) Produce(t testing.TB, topic string, records ...Record) {
	t.Helper()
	broker.Ask(t, "POST", "/topics/"+url.PathEscape(topic)+"/records", object{"records": append([]Record{}, records...)}, nil)
}

// Records returns the committed records of a topic, in the order of partition and offset.
func (broker *Broker) Records(t testing.TB, topic string) (records []Stored) {
	t.Helper()
	for next := "/topics/" + url.PathEscape(topic) + "/records?committed=true"; next != ""; {
		var page struct {
			Records []Stored
			Next    string
		}
		broker.Ask(t, "GET", next, nil, &page)
		records, next = append(records, page.Records...), page.Next
	}
	return records
}

// AssertRecords waits until the topic has as many committed records as expected, and compares them, in any order.
func (broker *Broker) AssertRecords(t testing.TB, topic string, expected ...Record) {
	t.Helper()
	wanted := object{"records": append([]Record{}, expected...), "in_order": false}
	broker.Ask(t, "POST", "/topics/"+url.PathEscape(topic)+"/records/assert", wanted, nil)
}

// Verdicts returns the broker's verdict on each produced batch of a topic: "accepted", "duplicate" or "rejected".
func (broker *Broker) Verdicts(t testing.TB, topic string) (verdicts []string) {
	t.Helper()
	var seen struct{ Verdicts []struct{ Verdict string } }
	broker.Ask(t, "GET", "/verdicts?topic="+url.QueryEscape(topic), nil, &seen)
	for _, row := range seen.Verdicts {
		verdicts = append(verdicts, row.Verdict)
	}
	return verdicts
}

// KillBroker stops a broker as kill -9 does, until StartBroker. A single broker has node id 1.
func (broker *Broker) KillBroker(t testing.TB, node int) {
	t.Helper()
	broker.Ask(t, "POST", fmt.Sprintf("/brokers/%d/kill", node), nil, nil)
}

// StartBroker starts a broker that KillBroker stopped.
func (broker *Broker) StartBroker(t testing.TB, node int) {
	t.Helper()
	broker.Ask(t, "POST", fmt.Sprintf("/brokers/%d/start", node), nil, nil)
}

// Advance moves the broker's clock: sessions and transactions time out, records and offsets expire.
func (broker *Broker) Advance(t testing.TB, by time.Duration) {
	t.Helper()
	broker.Ask(t, "POST", "/clock/advance", object{"milliseconds": by.Milliseconds()}, nil)
}

// Rule is a fault that the broker has loaded.
type Rule struct {
	ID     int
	broker *Broker
}

// AddFault loads a fault, which applies from the next request on and until the next Reset.
func (broker *Broker) AddFault(t testing.TB, fault Fault) *Rule {
	t.Helper()
	rule := &Rule{broker: broker}
	broker.Ask(t, "POST", "/faults", fault, rule)
	return rule
}

// Wait waits until the fault has fired this many times.
func (rule *Rule) Wait(t testing.TB, times int, timeout time.Duration) {
	t.Helper()
	rule.broker.Ask(t, "GET", fmt.Sprintf("/faults/%d/wait?times=%d&timeout=%g", rule.ID, times, timeout.Seconds()), nil, nil)
}

// AssertFired fails the test if the fault has not fired.
func (rule *Rule) AssertFired(t testing.TB) {
	t.Helper()
	rule.broker.Ask(t, "GET", fmt.Sprintf("/faults/%d/assert-fired", rule.ID), nil, nil)
}
