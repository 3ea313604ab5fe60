// Package acceptance holds the ten tests that every library has, here with franz-go.
package acceptance

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"wirebrokertest"
)

type on = wirebrokertest.On
type record = wirebrokertest.Record

func TestProduceAndConsume(t *testing.T) {
	broker := wirebrokertest.Reset(t, "orders:3")
	send(t, client(t, broker), order("order-1", "tea"), order("order-2", "salt"))

	broker.AssertRecords(t, "orders", record{Key: "order-1", Value: "tea"}, record{Key: "order-2", Value: "salt"})
	if got := values(poll(t, reader(t, broker, "orders"), 2)); !slices.Equal(got, []string{"salt", "tea"}) {
		t.Fatal(got)
	}
}

func TestALostAcknowledgementDoublesNothing(t *testing.T) {
	broker := wirebrokertest.Reset(t, "orders:3")
	lost := broker.AddFault(t, wirebrokertest.LoseAck(on{API: "Produce", Topic: "orders", Nth: 1}))
	send(t, client(t, broker), order("order-1", "tea"))

	lost.AssertFired(t)
	if got := broker.Verdicts(t, "orders"); !slices.Equal(got, []string{"accepted", "duplicate"}) {
		t.Fatal(got)
	}
	broker.AssertRecords(t, "orders", record{Key: "order-1", Value: "tea"})
}

func TestARecordComesAgainAfterACrash(t *testing.T) {
	broker := wirebrokertest.Reset(t, "orders:3")
	// With an instance id, a member that ends does not leave its group: the coordinator waits for it, as after a crash.
	first := client(t, broker, inGroup(t, kgo.InstanceID("first"))...)
	send(t, first, order("order-1", "tea"))
	if got := values(poll(t, first, 1)); !slices.Equal(got, []string{"tea"}) {
		t.Fatal(got)
	}
	first.Close() // before a commit

	broker.Advance(t, time.Minute) // the session of the member ends
	if got := values(poll(t, client(t, broker, inGroup(t)...), 1)); !slices.Equal(got, []string{"tea"}) {
		t.Fatal(got)
	}
}

func TestARebalanceDividesThePartitions(t *testing.T) {
	broker := wirebrokertest.Start(t, "--topic", "orders:2") // no group of another test
	own := make(chan string, 10)
	member := func(name string) *kgo.Client {
		return client(t, broker, inGroup(t,
			kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, added map[string][]int32) {
				own <- fmt.Sprintf("%s got %d", name, len(added["orders"]))
			}),
			kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
				own <- fmt.Sprintf("%s lost %d", name, len(lost["orders"]))
			}))...)
	}
	expect := func(wanted string) {
		t.Helper()
		for deadline := time.After(20 * time.Second); ; {
			select {
			case got := <-own:
				if got == wanted {
					return
				}
			case <-deadline:
				t.Fatalf("nobody said %q", wanted)
			}
		}
	}
	member("first")
	expect("first got 2")
	member("second")
	expect("first lost 1")
	expect("second got 1")
}

func TestAnAbortedTransactionLeavesNothing(t *testing.T) {
	broker := wirebrokertest.Reset(t, "orders:3", "invoices")
	broker.Produce(t, "orders", record{Key: "order-1", Value: "tea"})
	session, err := kgo.NewGroupTransactSession(options(broker, inGroup(t, kgo.TransactionalID(t.Name()))...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(session.Close)
	for _, commit := range []kgo.TransactionEndTry{kgo.TryAbort, kgo.TryCommit} { // the first attempt fails, and its input comes again
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
	broker.AssertRecords(t, "invoices", record{Key: "order-1", Value: "invoice for tea"})
	var all struct{ Records []struct{ Control bool } }
	broker.Ask(t, "GET", "/topics/invoices/records", nil, &all)
	if len(all.Records) != 4 { // two attempts and the markers of their ends
		t.Fatal(all.Records)
	}
}

func TestAnErrorThreeTimes(t *testing.T) {
	broker := wirebrokertest.Reset(t, "orders:3")
	refused := broker.AddFault(t, wirebrokertest.Error("NOT_ENOUGH_REPLICAS", on{API: "Produce", Topic: "orders", Times: 3}))
	send(t, client(t, broker), order("order-1", "tea"))

	refused.Wait(t, 3, 5*time.Second)
	broker.AssertRecords(t, "orders", record{Key: "order-1", Value: "tea"})
}

func TestASlowBroker(t *testing.T) {
	broker := wirebrokertest.Reset(t, "orders:3")
	slow := broker.AddFault(t, wirebrokertest.Delay(300*time.Millisecond, on{API: "Produce", Topic: "orders"}))
	began := time.Now()
	send(t, client(t, broker), order("order-1", "tea"))

	slow.AssertFired(t)
	if took := time.Since(began); took < 300*time.Millisecond {
		t.Fatal(took)
	}
}

func TestTheBrokerIsDownAndComesBack(t *testing.T) {
	broker := wirebrokertest.Reset(t, "orders:3")
	producer := client(t, broker)
	send(t, producer, order("order-1", "tea"))
	broker.KillBroker(t, 1)
	sent := make(chan error, 1)
	go func() { sent <- producer.ProduceSync(limited(t), order("order-2", "salt")).FirstErr() }()
	select {
	case err := <-sent:
		t.Fatal("sent to a broker that is down:", err)
	case <-time.After(200 * time.Millisecond):
	}
	broker.StartBroker(t, 1)
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	broker.AssertRecords(t, "orders", record{Value: "tea"}, record{Value: "salt"})
}

func TestDenied(t *testing.T) {
	const denial = "deny User:ANONYMOUS WRITE TOPIC orders"
	broker := wirebrokertest.Start(t, "--topic", "orders:3", "--acl", denial, "--acl", "allow User:ANONYMOUS ALL TOPIC *",
		"--acl", "allow User:ANONYMOUS IDEMPOTENT_WRITE CLUSTER kafka-cluster")
	producer := client(t, broker)
	err := producer.ProduceSync(limited(t), order("order-1", "tea")).FirstErr()
	if !errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Fatal(err)
	}
	broker.AssertRecords(t, "orders")
	broker.Ask(t, "DELETE", "/acls?acl="+url.QueryEscape(denial), nil, nil)
	send(t, producer, order("order-1", "tea"))
}

func TestRecordsWithHeaders(t *testing.T) {
	broker := wirebrokertest.Reset(t, "orders:3")
	sent := order("order-1", `{"item": "tea", "grams": 500}`)
	sent.Headers = []kgo.RecordHeader{{Key: "trace", Value: []byte("abc-7")}}
	send(t, client(t, broker), sent)

	broker.AssertRecords(t, "orders", record{
		Key:     wirebrokertest.Regex("^order-[0-9]+$"),
		Value:   wirebrokertest.Subset(map[string]any{"item": "tea"}),
		Headers: map[string]any{"trace": "abc-7"},
	})
	stored := broker.Records(t, "orders")[0]
	if stored.Key.String() != "order-1" || stored.Headers[0].Name != "trace" || stored.Headers[0].Value.String() != "abc-7" {
		t.Fatal(stored)
	}
}
