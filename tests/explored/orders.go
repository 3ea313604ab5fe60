// Sends orders, or reads orders and writes invoices. "send" and "transactions" are correct; each other function has a bug.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const orders = 4

func client(options ...kgo.Opt) *kgo.Client {
	client, err := kgo.NewClient(soon(options)...)
	if err != nil {
		log.Fatal(err)
	}
	return client
}

// soon returns options that shorten franz-go's waits between retries, and its timeouts.
func soon(options []kgo.Opt) []kgo.Opt {
	return append(options,
		kgo.SeedBrokers(os.Getenv("WIREBROKER_BOOTSTRAP")), kgo.MetadataMinAge(50*time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 10 * time.Millisecond }), kgo.RetryTimeout(4*time.Second),
		kgo.RecordDeliveryTimeout(4*time.Second), kgo.ProduceRequestTimeout(time.Second), kgo.RequestTimeoutOverhead(time.Second),
		kgo.ConsumerGroup("billing"), kgo.FetchMaxWait(100*time.Millisecond),
	)
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	reading := []kgo.Opt{kgo.ConsumeTopics("orders"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}
	switch os.Args[1] {
	case "send":
		send(ctx, true)
	case "unseen":
		send(ctx, false)
	case "auto-commit":
		autoCommit(ctx, client(reading...))
	case "transactions":
		transactions(ctx, append(reading, kgo.TransactionalID("billing"), kgo.RequireStableFetchOffsets(),
			kgo.FetchIsolationLevel(kgo.ReadCommitted())))
	}
}

func invoice(order *kgo.Record) *kgo.Record {
	return &kgo.Record{Topic: "invoices", Key: order.Key, Value: append([]byte("invoice of "), order.Value...)}
}

// send sends six orders of one customer, and looks at their results, or only waits for them.
func send(ctx context.Context, seen bool) {
	client := client(kgo.DefaultProduceTopic("orders"))
	defer client.Close()
	for number := range 6 {
		client.Produce(ctx, &kgo.Record{Key: []byte("customer"), Value: fmt.Appendf(nil, "order-%d", number)},
			func(record *kgo.Record, err error) {
				if seen && err != nil {
					log.Fatalf("%s: %v", record.Value, err)
				}
			})
	}
	if err := client.Flush(ctx); err != nil && seen {
		log.Fatal(err)
	}
}

// autoCommit reads with automatic commits, which do not wait for the invoices.
func autoCommit(ctx context.Context, client *kgo.Client) {
	for done := 0; done < orders && ctx.Err() == nil; {
		client.PollFetches(ctx).EachRecord(func(order *kgo.Record) {
			client.Produce(ctx, invoice(order), func(_ *kgo.Record, err error) {
				if err != nil {
					log.Printf("no invoice for %s: %v", order.Value, err)
				}
			})
			done++
		})
	}
	client.Flush(ctx)
	client.Close()
}

// transactions writes the invoices of each poll in one transaction, with the offsets in it.
func transactions(ctx context.Context, options []kgo.Opt) {
	session, err := kgo.NewGroupTransactSession(soon(options)...)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	for done := 0; done < orders; {
		fetches := session.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			log.Fatal(err)
		}
		if err := session.Begin(); err != nil {
			log.Fatal(err)
		}
		sent := kgo.AbortingFirstErrPromise(session.Client())
		fetches.EachRecord(func(order *kgo.Record) { session.Produce(ctx, invoice(order), sent.Promise()) })
		committed, err := session.End(ctx, sent.Err() == nil)
		if err != nil && !errors.Is(err, kerr.TransactionAbortable) {
			log.Fatal(err)
		}
		if committed {
			done += fetches.NumRecords()
		}
	}
}
