package acceptance

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"wirebrokertest"
)

func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func options(broker *wirebrokertest.Broker, more ...kgo.Opt) []kgo.Opt {
	// By default franz-go asks for metadata at most every 5 s, and a retry after a lost connection waits for the metadata.
	return append(more, kgo.SeedBrokers(broker.Bootstrap), kgo.MetadataMinAge(50*time.Millisecond))
}

func client(t *testing.T, broker *wirebrokertest.Broker, more ...kgo.Opt) *kgo.Client {
	t.Helper()
	made, err := kgo.NewClient(options(broker, more...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(made.Close)
	return made
}

func reader(t *testing.T, broker *wirebrokertest.Broker, topic string) *kgo.Client {
	t.Helper()
	return client(t, broker, kgo.ConsumeTopics(topic))
}

// inGroup returns options that make a client a member of the test's own group.
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
