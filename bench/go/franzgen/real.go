package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A real load: it prints "ready", waits for a line, produces or consumes `count` records, and prints "done". The records are
// the lines of a file, which is read repeatedly: key, header (which may be empty) and value, separated by tabs.
func realLoad(mode, address, topic, file, codec string, count int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Second)
	defer cancel()
	options := []kgo.Opt{kgo.SeedBrokers(address)}
	if mode == "produce" {
		options = append(options, kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(codecs[codec]()),
			kgo.ProducerLinger(5*time.Millisecond), kgo.MaxBufferedRecords(100_000))
	} else {
		start := map[int32]kgo.Offset{0: kgo.NewOffset().AtStart()}
		options = append(options, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: start}))
	}
	records, err := readRecords(file)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	if mode == "produce" {
		err = produceRecords(ctx, client, records, count)
	} else {
		err = consumeRecords(ctx, client, count)
	}
	if err == nil {
		fmt.Println("done")
	}
	return err
}

var codecs = map[string]func() kgo.CompressionCodec{
	"none": kgo.NoCompression, "gzip": kgo.GzipCompression, "snappy": kgo.SnappyCompression, "lz4": kgo.Lz4Compression,
	"zstd": kgo.ZstdCompression,
}

func readRecords(file string) ([]kgo.Record, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var records []kgo.Record
	for _, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		parts := strings.SplitN(line, "\t", 3)
		record := kgo.Record{Key: []byte(parts[0]), Value: []byte(parts[2])}
		if parts[1] != "" {
			record.Headers = []kgo.RecordHeader{{Key: "trace", Value: []byte(parts[1])}}
		}
		records = append(records, record)
	}
	return records, nil
}

func produceRecords(ctx context.Context, client *kgo.Client, records []kgo.Record, count int) error {
	failed := make(chan error, 1)
	for i := 0; i < count; i++ {
		record := records[i%len(records)]
		client.Produce(ctx, &record, func(_ *kgo.Record, err error) {
			if err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
	}
	if err := client.Flush(ctx); err != nil {
		return err
	}
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

func consumeRecords(ctx context.Context, client *kgo.Client, count int) error {
	for got := 0; got < count; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("after %d records: %w", got, err)
		}
		got += fetches.NumRecords()
	}
	return nil
}
