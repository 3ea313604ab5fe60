// Package ten holds the ten tests of clients/go/acceptance against kfake, as far as kfake can express them.
package ten

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

var produce = []kmsg.Key{kmsg.Produce}

func TestProduceAndConsume(t *testing.T) {
	broker := start(t, kfake.SeedTopics(3, "orders"))
	send(t, client(t, broker), order("order-1", "tea"), order("order-2", "salt"))
	expect(t, broker, "orders", "salt", "tea")
}

func TestALostAcknowledgementDoublesNothing(t *testing.T) {
	broker := start(t, kfake.SeedTopics(3, "orders"))
	// kfake cannot lose a response, so it returns this error: the batch is stored, and the client sends it again.
	lost := broker.Fault(kfake.Fault{Keys: produce, Topic: "orders", Err: kerr.NotEnoughReplicasAfterAppend})
	send(t, client(t, broker), order("order-1", "tea"))
	if lost.Hits() != 1 {
		t.Fatal(lost.Hits())
	}
	expect(t, broker, "orders", "tea")
}

func TestARecordComesAgainAfterACrash(t *testing.T) {
	broker := start(t, kfake.SeedTopics(3, "orders"), kfake.GroupMinSessionTimeout(100*time.Millisecond))
	first := client(t, broker, inGroup(t, kgo.InstanceID("first"), kgo.SessionTimeout(time.Second))...)
	send(t, first, order("order-1", "tea"))
	if got := values(poll(t, first, 1)); !slices.Equal(got, []string{"tea"}) {
		t.Fatal(got)
	}
	first.Close() // before a commit; the session ends after a second
	if got := values(poll(t, client(t, broker, inGroup(t)...), 1)); !slices.Equal(got, []string{"tea"}) {
		t.Fatal(got)
	}
}

func TestARebalanceDividesThePartitions(t *testing.T) {
	broker := start(t, kfake.SeedTopics(2, "orders"))
	client(t, broker, inGroup(t)...)
	client(t, broker, inGroup(t)...)
	group, err := broker.WaitGroupStable(limited(t), t.Name(), 2)
	for err == nil && slices.ContainsFunc(group.Members, func(member kfake.GroupMember) bool { return member.NumAssigned() != 1 }) {
		time.Sleep(10 * time.Millisecond)
		group, err = broker.WaitGroupStable(limited(t), t.Name(), 2)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestAnAbortedTransactionLeavesNothing(t *testing.T) {
	broker := start(t, kfake.SeedTopics(3, "orders"), kfake.SeedTopics(1, "invoices"))
	send(t, client(t, broker), order("order-1", "tea"))
	session, err := kgo.NewGroupTransactSession(options(broker, inGroup(t, kgo.TransactionalID(t.Name()))...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(session.Close)
	for _, commit := range []kgo.TransactionEndTry{kgo.TryAbort, kgo.TryCommit} {
		var read []*kgo.Record
		for len(read) == 0 {
			read = session.PollFetches(limited(t)).Records()
		}
		if err := session.Begin(); err != nil {
			t.Fatal(err)
		}
		invoice := &kgo.Record{Topic: "invoices", Key: read[0].Key, Value: fmt.Appendf(nil, "invoice for %s", read[0].Value)}
		if err := session.ProduceSync(limited(t), invoice).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if done, err := session.End(limited(t), commit); err != nil || done != bool(commit) {
			t.Fatal(done, err)
		}
	}
	expect(t, broker, "invoices", "invoice for tea")
}

func TestAnErrorThreeTimes(t *testing.T) {
	broker := start(t, kfake.SeedTopics(3, "orders"))
	refused := broker.Fault(kfake.Fault{Keys: produce, Topic: "orders", Err: kerr.NotEnoughReplicas, Count: 3})
	send(t, client(t, broker), order("order-1", "tea"))
	if err := refused.Wait(limited(t), 3); err != nil {
		t.Fatal(err)
	}
	expect(t, broker, "orders", "tea")
}

func TestASlowBroker(t *testing.T) {
	broker := start(t, kfake.SeedTopics(3, "orders"))
	broker.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		broker.KeepControl()
		time.Sleep(300 * time.Millisecond)
		return nil, nil, false
	})
	began := time.Now()
	send(t, client(t, broker), order("order-1", "tea"))
	if took := time.Since(began); took < 300*time.Millisecond {
		t.Fatal(took)
	}
}

func TestTheBrokerIsDownAndComesBack(t *testing.T) {
	t.Skip("the only broker cannot be stopped")
}

func TestDenied(t *testing.T) {
	acl := func(operation kmsg.ACLOperation, allow bool) kfake.ACL {
		return kfake.ACL{Resource: kmsg.ACLResourceTypeTopic, Name: "orders", Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: operation, Allow: allow}
	}
	broker := start(t, kfake.SeedTopics(3, "orders"), kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("PLAIN", "admin", "admin"),
		kfake.User("PLAIN", "till", "till", acl(kmsg.ACLOperationAll, true), acl(kmsg.ACLOperationWrite, false)))
	user := func(name string) kgo.Opt { return kgo.SASL(plain.Auth{User: name, Pass: name}.AsMechanism()) }
	producer := client(t, broker, user("till"))
	err := producer.ProduceSync(limited(t), order("order-1", "tea")).FirstErr()
	if !errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Fatal(err)
	}
	denial := kadm.NewACLs().Topics("orders").Deny("User:till").DenyHosts().Operations(kmsg.ACLOperationWrite).ResourcePatternType(kmsg.ACLResourcePatternTypeLiteral)
	if _, err := kadm.NewClient(client(t, broker, user("admin"))).DeleteACLs(limited(t), denial); err != nil {
		t.Fatal(err)
	}
	send(t, producer, order("order-1", "tea"))
}

func TestRecordsWithHeaders(t *testing.T) {
	broker := start(t, kfake.SeedTopics(3, "orders"))
	sent := order("order-1", `{"item": "tea", "grams": 500}`)
	sent.Headers = []kgo.RecordHeader{{Key: "trace", Value: []byte("abc-7")}}
	send(t, client(t, broker), sent)
	stored := poll(t, client(t, broker, kgo.ConsumeTopics("orders")), 1)[0]
	if string(stored.Key) != "order-1" || stored.Headers[0].Key != "trace" || string(stored.Headers[0].Value) != "abc-7" {
		t.Fatal(stored)
	}
}

func start(t *testing.T, more ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	broker, err := kfake.NewCluster(append(more, kfake.NumBrokers(1))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	return broker
}

// expect reads the committed records of a topic, and fails if there are other records than these.
func expect(t *testing.T, broker *kfake.Cluster, topic string, wanted ...string) {
	t.Helper()
	reader := client(t, broker, kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if got := values(poll(t, reader, len(wanted))); !slices.Equal(got, wanted) {
		t.Fatal(got)
	}
	more, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if got := reader.PollFetches(more).Records(); len(got) > 0 {
		t.Fatal(values(got))
	}
}

func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func options(broker *kfake.Cluster, more ...kgo.Opt) []kgo.Opt {
	return append(more, kgo.SeedBrokers(broker.ListenAddrs()...), kgo.MetadataMinAge(50*time.Millisecond))
}

func client(t *testing.T, broker *kfake.Cluster, more ...kgo.Opt) *kgo.Client {
	t.Helper()
	made, err := kgo.NewClient(options(broker, more...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(made.Close)
	return made
}

func inGroup(t *testing.T, more ...kgo.Opt) []kgo.Opt {
	return append(more, kgo.ConsumerGroup(t.Name()), kgo.ConsumeTopics("orders"), kgo.DisableAutoCommit(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.HeartbeatInterval(100*time.Millisecond))
}

func order(id, what string) *kgo.Record {
	return &kgo.Record{Topic: "orders", Key: []byte(id), Value: []byte(what)}
}

func send(t *testing.T, producer *kgo.Client, records ...*kgo.Record) {
	t.Helper()
	if err := producer.ProduceSync(limited(t), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func poll(t *testing.T, consumer *kgo.Client, count int) (records []*kgo.Record) {
	t.Helper()
	for ctx := limited(t); len(records) < count; {
		fetches := consumer.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			t.Fatal(err)
		}
		records = append(records, fetches.Records()...)
	}
	return records
}

func values(records []*kgo.Record) (texts []string) {
	for _, each := range records {
		texts = append(texts, string(each.Value))
	}
	slices.Sort(texts)
	return texts
}
