package wirebrokertest

import (
	"encoding/json"
	"time"
)

// On chooses the requests on which a fault fires. A field that is not set matches every request.
type On struct {
	API             string  `json:"api,omitempty"` // Kafka's name, such as "Produce"
	Topic           string  `json:"topic,omitempty"`
	Partition       *int    `json:"partition,omitempty"`
	Group           string  `json:"group,omitempty"`
	TransactionalID string  `json:"transactional_id,omitempty"`
	ClientID        string  `json:"client_id,omitempty"`
	Principal       string  `json:"principal,omitempty"` // such as "User:alice"
	Node            int     `json:"node,omitempty"`
	Nth             int     `json:"nth,omitempty"` // only on the nth match, counted from 1
	Every           int     `json:"every,omitempty"`
	Times           int     `json:"times,omitempty"` // at most this many times
	Probability     float64 `json:"probability,omitempty"`
}

// Fault is a fault in the words of docs/how-to/faults.md, which describes each kind and its options.
type Fault map[string]any

// With gives the fault an option, such as With("then", "silence").
func (fault Fault) With(option string, value any) Fault {
	fault[option] = value
	return fault
}

// After lets the broker handle the request before the fault (Error, Delay, Disconnect or ResetConnection) takes effect.
func (fault Fault) After() Fault { return fault.With("after", true) }

func (on On) fault(kind string) Fault {
	fault := Fault{}
	text, _ := json.Marshal(on) // texts and numbers only, so this cannot fail
	json.Unmarshal(text, &fault)
	return fault.With("kind", kind)
}

// The kinds of faults. Required options are arguments; With sets the other options.
func LoseRequest(on On) Fault                 { return on.fault("lose_request") }
func LoseAck(on On) Fault                     { return on.fault("lose_ack") }
func Error(code string, on On) Fault          { return on.fault("error").With("code", code) }
func Delay(by time.Duration, on On) Fault     { return on.lasting("delay", by) }
func Disconnect(on On) Fault                  { return on.fault("disconnect") }
func Throttle(by time.Duration, on On) Fault  { return on.lasting("throttle", by) }
func Reorder(others int, on On) Fault         { return on.fault("reorder").With("others", others) }
func Observe(on On) Fault                     { return on.fault("observe") }
func Cut(bytes int, on On) Fault              { return on.fault("cut").With("bytes", bytes) }
func Slice(bytes int, on On) Fault            { return on.fault("slice").With("bytes", bytes) }
func Bandwidth(rate int, on On) Fault         { return on.fault("bandwidth").With("rate", rate) }
func Corrupt(bytes int, on On) Fault          { return on.fault("corrupt").With("bytes", bytes) }
func ResetConnection(on On) Fault             { return on.fault("reset") }
func Refuse(on On) Fault                      { return on.fault("refuse") }
func Close(on On) Fault                       { return on.fault("close") }
func FailWrite(on On) Fault                   { return on.fault("fail_write") }
func SlowWrite(by time.Duration, on On) Fault { return on.lasting("slow_write", by) }
func DiskFull(on On) Fault                    { return on.fault("disk_full") }
func CrashAfterWrite(on On) Fault             { return on.fault("crash_after_write") }
func ExpireProducer(on On) Fault              { return on.fault("expire_producer") }
func ExpireSession(on On) Fault               { return on.fault("expire_session") }
func WithdrawACL(acl string, on On) Fault     { return on.fault("withdraw_acl").With("acl", acl) }
func ExpireTransactionalID(id string, on On) Fault {
	return on.fault("expire_transactional_id").With("transactional_id", id)
}
func Fence(id string, on On) Fault                   { return on.fault("fence").With("transactional_id", id) }
func SlowReassignment(by time.Duration, on On) Fault { return on.lasting("slow_reassignment", by) }
func ExpireMember(on On) Fault                       { return on.fault("expire_member") }
func MoveLeader(on On) Fault                         { return on.fault("move_leader") }
func MoveCoordinator(on On) Fault                    { return on.fault("move_coordinator") }
func AdvanceClock(by time.Duration, on On) Fault     { return on.lasting("advance", by) }
func Restart(on On) Fault                            { return on.fault("restart") }
func Upgrade(to string, on On) Fault                 { return on.fault("upgrade").With("to", to) }
func Truncate(offset int64, on On) Fault             { return on.fault("truncate").With("offset", offset) }
func LoseCoordinator(on On) Fault                    { return on.fault("lose_coordinator") }
func StallHandshake(on On) Fault                     { return on.fault("stall_handshake") }
func ExpireCertificate(on On) Fault                  { return on.fault("expire_certificate") }

func (on On) lasting(kind string, by time.Duration) Fault {
	return on.fault(kind).With("ms", by.Milliseconds())
}
