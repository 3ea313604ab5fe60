// Command franzgen is a load with franz-go's client. It first fills a topic. Then it measures how many records a second a
// broker delivers to the only member of a share group, which accepts all records. It prints one line of JSON, as loadgen does.
// With -mode, the command makes a real load instead: see realLoad.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func main() {
	address := flag.String("address", "127.0.0.1:9092", "host:port of the broker")
	name := flag.String("topic", "bench", "name of the topic and of the group, which must not exist")
	records := flag.Int("records", 100_000, "records to deliver")
	size := flag.Int("record-bytes", 100, "bytes of a record")
	batch := flag.Int("batch", 100, "records in a batch")
	pid := flag.Int("pid", 0, "process id of the server, for its CPU time")
	mode := flag.String("mode", "share", "share; produce or consume are a real load, whose server another process measures")
	codec := flag.String("codec", "none", "codec of the real load")
	file := flag.String("file", "", "records of the real load")
	flag.Parse()
	if *mode != "share" {
		if err := realLoad(*mode, *address, *name, *file, *codec, *records); err != nil {
			fmt.Fprintln(os.Stderr, "franzgen:", err)
			os.Exit(1)
		}
		return
	}
	report, err := run(*address, *name, *records, *size, *batch, *pid)
	if err != nil {
		fmt.Fprintln(os.Stderr, "franzgen:", err)
		os.Exit(1)
	}
	line, _ := json.Marshal(report)
	fmt.Println(string(line))
}

func run(address, name string, records, size, batch, pid int) (map[string]any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Second)
	defer cancel()
	if err := fill(ctx, address, name, records, size, batch); err != nil {
		return nil, err
	}
	member, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ShareGroup(name), kgo.ConsumeTopics(name))
	if err != nil {
		return nil, err
	}
	defer member.Close()
	delivered := 0
	var began time.Time
	var server time.Duration
	for delivered < records {
		fetches := member.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("after %d records: %w", delivered, err)
		}
		if began.IsZero() { // joining the group is not measured
			began, server, records = time.Now(), processCPU(pid), records-fetches.NumRecords()
			continue
		}
		delivered += fetches.NumRecords()
	}
	seconds := time.Since(began).Seconds()
	used := processCPU(pid) - server
	return map[string]any{
		"mode": "share", "requests": delivered, "seconds": seconds, "requests_per_second": float64(delivered) / seconds,
		"server_cpu_us_per_request": float64(used.Microseconds()) / float64(delivered),
	}, nil
}

// fill makes a topic with these records, and lets the group begin at the start of the topic.
func fill(ctx context.Context, address, name string, records, size, batch int) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(0))
	if err != nil {
		return err
	}
	defer client.Close()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, 1
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Topics, create.TimeoutMillis = append(create.Topics, topic), 10_000
	if _, err := create.RequestWith(ctx, client); err != nil {
		return err
	}
	setting := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	setting.Name, setting.Value = "share.auto.offset.reset", kmsg.StringPtr("earliest")
	group := kmsg.NewIncrementalAlterConfigsRequestResource()
	group.ResourceType, group.ResourceName = kmsg.ConfigResourceTypeGroupConfig, name
	group.Configs = append(group.Configs, setting)
	alter := kmsg.NewPtrIncrementalAlterConfigsRequest()
	alter.Resources = append(alter.Resources, group)
	answer, err := alter.RequestWith(ctx, client)
	if err == nil {
		err = kerr.ErrorForCode(answer.Resources[0].ErrorCode)
	}
	if err != nil {
		return err
	}
	for sent := 0; sent < records; sent += batch {
		var together []*kgo.Record
		for range batch {
			together = append(together, &kgo.Record{Topic: name, Value: make([]byte, size)})
		}
		if err := client.ProduceSync(ctx, together...).FirstErr(); err != nil {
			return err
		}
	}
	return nil
}

// processCPU is the CPU time that all threads of a process have used, or 0 if it is unknown.
func processCPU(pid int) (total time.Duration) {
	tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, task := range tasks {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/schedstat", pid, task.Name()))
		if fields := strings.Fields(string(text)); len(fields) > 0 {
			ns, _ := strconv.ParseInt(fields[0], 10, 64)
			total += time.Duration(ns)
		}
	}
	return total
}
