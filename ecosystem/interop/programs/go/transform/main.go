// Consumes NAME.in, produces NAME.out and commits in transactions, exactly once: transform BOOTSTRAP NAME INSTANCE. An output
// has another value than its input, but the same order id. Drafts have no output. Ends with code 1 after an error from which
// only a new client recovers.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type order struct {
	Order struct {
		ID string `json:"id"`
	} `json:"order"`
	State string `json:"state,omitempty"`
}

func main() {
	name := os.Args[2]
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(strings.Split(os.Args[1], ",")...), kgo.ConsumerGroup(name), kgo.ConsumeTopics(name+".in"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(), kgo.TransactionalID(name+"-"+os.Args[3]), kgo.TransactionTimeout(15*time.Second),
	)
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	for ctx.Err() == nil {
		fetches := session.PollRecords(ctx, 500)
		for _, failed := range fetches.Errors() {
			log.Print("fetch: ", failed.Err)
		}
		if fetches.NumRecords() > 0 {
			transform(session, fetches, name+".out")
		}
		time.Sleep(250 * time.Millisecond) // so that a transaction has more than one record
	}
	session.Close()
}

func transform(session *kgo.GroupTransactSession, fetches kgo.Fetches, out string) {
	ctx := context.Background()
	if err := session.Begin(); err != nil {
		log.Fatal("begin: ", err)
	}
	promise := kgo.AbortingFirstErrPromise(session.Client())
	fetches.EachRecord(func(record *kgo.Record) {
		var input order
		if err := json.Unmarshal(record.Value, &input); err != nil {
			log.Fatal(err)
		}
		if input.State == "draft" {
			return
		}
		input.State = ""
		value, _ := json.Marshal(input)
		session.Produce(ctx, &kgo.Record{Topic: out, Key: record.Key, Value: value}, promise.Promise())
	})
	committed, err := session.End(ctx, kgo.TransactionEndTry(promise.Err() == nil))
	if err != nil {
		log.Fatal("end: ", err)
	}
	if !committed {
		log.Print("aborts: ", promise.Err())
	}
}
