// A service that keeps running while its broker is reset: service BOOTSTRAP. For each order it produces a result, and commits.
package main

import (
	"context"
	"log"
	"os"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(os.Args[1]), kgo.ConsumerGroup("service"), kgo.ConsumeTopics("orders"), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	if err != nil {
		log.Fatal(err)
	}
	for ctx := context.Background(); ; {
		fetches := client.PollFetches(ctx)
		for _, failed := range fetches.Errors() {
			log.Fatal(failed.Err)
		}
		for _, record := range fetches.Records() {
			result := &kgo.Record{Topic: "results", Value: record.Value}
			if err := client.ProduceSync(ctx, result).FirstErr(); err != nil {
				log.Fatal(err)
			}
			if err := client.CommitRecords(ctx, record); err != nil {
				log.Fatal(err)
			}
		}
	}
}
