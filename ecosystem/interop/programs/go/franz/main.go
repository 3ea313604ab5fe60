// The checks with franz-go: its client kgo and its admin client kadm.
package main

import (
	"context"
	"errors"
	"fmt"
	"interop/kit"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

var committed = kgo.FetchIsolationLevel(kgo.ReadCommitted())

func main() {
	checks := map[string]kit.Check{
		"produce": produce, "commit": commit, "abort": abort, "fence": fence,
		"offsets-in-transaction": offsetsInTransaction, "topics": topics, "configs": configs,
		"list-offsets": listOffsets, "delete-records": deleteRecords, "groups": groups, "transactions": transactions,
		"share-group": shareGroup,
		"rebalance":   func(name string) string { return rebalance(name) },
		"rebalance-848": func(name string) string {
			return rebalance(name, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
		},
		"acl": acl, "quota": quota,
	}
	for _, check := range kit.Secured {
		checks[check] = secured
	}
	kit.Run("franz-go", "github.com/twmb/franz-go", checks)
}

func limited() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(kit.Limit, cancel)
	return ctx
}

func client(options ...kgo.Opt) *kgo.Client {
	options = append(options, kgo.SeedBrokers(kit.Bootstrap()), kgo.MetadataMinAge(100*time.Millisecond))
	return kit.Get(kgo.NewClient(options...))
}

func admin() *kadm.Client { return kadm.NewClient(client()) }

func create(topic string, partitions int32, configs map[string]*string) {
	client := admin()
	defer client.Close()
	kit.Get(client.CreateTopic(limited(), partitions, -1, configs, topic))
	kit.Until("every partition has a leader", func() bool {
		found := kit.Get(client.ListTopics(limited(), topic))[topic]
		for _, each := range found.Partitions {
			if each.Leader < 0 {
				return false
			}
		}
		return found.Err == nil && len(found.Partitions) == int(partitions)
	})
}

func send(client *kgo.Client, topic string, values []string) []*kgo.Record {
	var records []*kgo.Record
	for _, value := range values {
		records = append(records, &kgo.Record{Topic: topic, Key: []byte(value), Value: []byte(value)})
	}
	kit.Must(client.ProduceSync(limited(), records...).FirstErr())
	return records
}

// read returns all values that are visible at this isolation level.
func read(topic string, options ...kgo.Opt) []string {
	consumer := client(append(options, kgo.ConsumeTopics(topic), kgo.KeepControlRecords())...)
	defer consumer.Close()
	left := map[int32]int64{}
	kit.Get(kadm.NewClient(consumer).ListEndOffsets(limited(), topic)).Each(func(end kadm.ListedOffset) {
		if end.Offset > 0 {
			left[end.Partition] = end.Offset
		}
	})
	values := []string{}
	ctx := limited()
	for len(left) > 0 {
		fetches := consumer.PollFetches(ctx)
		kit.Must(fetches.Err())
		fetches.EachRecord(func(record *kgo.Record) {
			if !record.Attrs.IsControl() {
				values = append(values, string(record.Value))
			}
			if record.Offset+1 >= left[record.Partition] {
				delete(left, record.Partition)
			}
		})
	}
	slices.Sort(values)
	return values
}

// shareGroup checks that two consumers of a share group get every record, and that a record that a consumer releases is
// delivered again.
func shareGroup(name string) string {
	create(name, 2, nil)
	producer := client()
	defer producer.Close()
	fromTheStart(producer, name)
	send(producer, name, kit.Numbered("value", 20))
	accepted, again := map[string]bool{}, map[string]bool{}
	var members []*kgo.Client
	for range 2 {
		member := client(kgo.ShareGroup(name), kgo.ConsumeTopics(name))
		defer member.Close()
		members = append(members, member)
	}
	kit.Until("every record is accepted", func() bool {
		for _, member := range members {
			ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
			member.PollFetches(ctx).EachRecord(func(record *kgo.Record) {
				value := string(record.Value)
				first := record.DeliveryCount() == 1
				if !first {
					again[value] = true
				}
				if first && strings.HasSuffix(value, "5") {
					record.Ack(kgo.AckRelease)
				} else {
					record.Ack(kgo.AckAccept)
					accepted[value] = true
				}
			})
			cancel()
		}
		return len(accepted) == 20
	})
	kit.Same(len(again), 2, "delivered again")
	return ""
}

func fromTheStart(client *kgo.Client, group string) {
	setting := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	setting.Name, setting.Value = "share.auto.offset.reset", kmsg.StringPtr("earliest")
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	resource.Configs = append(resource.Configs, setting)
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	request.Resources = append(request.Resources, resource)
	for _, each := range kit.Get(request.RequestWith(limited(), client)).Resources {
		kit.Must(kerr.ErrorForCode(each.ErrorCode))
	}
}

func begin(client *kgo.Client) { kit.Must(client.BeginTransaction()) }

func end(client *kgo.Client, commit kgo.TransactionEndTry) error {
	return client.EndTransaction(limited(), commit)
}

func produce(name string) string {
	create(name, 2, nil)
	producer := client()
	defer producer.Close()
	values := kit.Numbered("value", 10)
	next := map[int32]int64{}
	for _, record := range send(producer, name, values) {
		kit.Same(record.Offset, next[record.Partition], "acknowledged offset")
		next[record.Partition]++
	}
	kit.Same(read(name), values, "found")
	return ""
}

func commit(name string) string {
	create(name, 2, nil)
	producer := client(kgo.TransactionalID(name))
	defer producer.Close()
	for _, batch := range []string{"one", "two"} {
		begin(producer)
		send(producer, name, kit.Numbered(batch, 4))
		kit.Must(end(producer, kgo.TryCommit))
	}
	kit.Same(read(name, committed), append(kit.Numbered("one", 4), kit.Numbered("two", 4)...), "found")
	return ""
}

func abort(name string) string {
	create(name, 1, nil)
	producer := client(kgo.TransactionalID(name))
	defer producer.Close()
	for _, value := range []string{"1", "2-aborted", "3"} {
		begin(producer)
		send(producer, name, []string{value})
		kit.Must(end(producer, kgo.TransactionEndTry(!strings.HasSuffix(value, "aborted"))))
	}
	kit.Same(read(name, committed), []string{"1", "3"}, "read_committed saw")
	kit.Same(read(name), []string{"1", "2-aborted", "3"}, "read_uncommitted saw")
	return ""
}

func fence(name string) string {
	create(name, 1, nil)
	zombie, heir := client(kgo.TransactionalID(name)), client(kgo.TransactionalID(name))
	defer zombie.Close()
	defer heir.Close()
	begin(zombie)
	send(zombie, name, []string{"zombie"})
	begin(heir)
	send(heir, name, []string{"heir"})
	err := end(zombie, kgo.TryCommit)
	if !errors.Is(err, kerr.InvalidProducerEpoch) && !errors.Is(err, kerr.ProducerFenced) {
		panic(fmt.Sprintf("the zombie's commit came to: %v", err))
	}
	kit.Must(end(heir, kgo.TryCommit))
	kit.Same(read(name, committed), []string{"heir"}, "found")
	return err.Error()
}

func offsetsInTransaction(name string) string {
	source, target := name+"-source", name+"-target"
	create(source, 1, nil)
	create(target, 1, nil)
	producer := client()
	defer producer.Close()
	send(producer, source, kit.Numbered("in", 6))
	for _, round := range []struct {
		try      kgo.TransactionEndTry
		expected int64
	}{{kgo.TryCommit, 3}, {kgo.TryAbort, 3}, {kgo.TryCommit, 6}} {
		session := kit.Get(kgo.NewGroupTransactSession(
			kgo.SeedBrokers(kit.Bootstrap()), kgo.TransactionalID(name), kgo.ConsumerGroup(name), committed,
			kgo.ConsumeTopics(source), kgo.RequireStableFetchOffsets(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		))
		fetches := session.PollRecords(limited(), 3)
		kit.Must(fetches.Err())
		var values []string
		for _, record := range fetches.Records() {
			values = append(values, strings.Replace(string(record.Value), "in", "out", 1))
		}
		kit.Must(session.Begin())
		send(session.Client(), target, values)
		kit.Same(kit.Get(session.End(limited(), round.try)), bool(round.try), "committed:")
		kit.Until("the committed offset", func() bool {
			found, _ := kit.Get(kadm.NewClient(session.Client()).FetchOffsets(limited(), name)).Lookup(source, 0)
			return found.At == round.expected
		})
		session.Close()
	}
	kit.Same(read(target, committed), kit.Numbered("out", 6), "found")
	return ""
}

// member is a client that joins a group and polls; count is the number of partitions that the client has.
func member(name string, options []kgo.Opt) (joined *kgo.Client, count func() int) {
	var owned atomic.Int64
	change := func(sign int64) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			owned.Add(sign * int64(len(partitions[name])))
		}
	}
	joined = client(append(options, kgo.ConsumerGroup(name), kgo.ConsumeTopics(name),
		kgo.HeartbeatInterval(200*time.Millisecond), kgo.OnPartitionsAssigned(change(1)),
		kgo.OnPartitionsRevoked(change(-1)), kgo.OnPartitionsLost(change(-1)))...)
	go func() {
		for !joined.PollFetches(context.Background()).IsClientClosed() {
		}
	}()
	return joined, func() int { return int(owned.Load()) }
}

func rebalance(name string, options ...kgo.Opt) string {
	create(name, 4, nil)
	one, first := member(name, options)
	kit.Until("one member has all partitions", func() bool { return first() == 4 })
	two, second := member(name, options)
	kit.Until("two members have two partitions each", func() bool { return first() == 2 && second() == 2 })
	one.Close()
	kit.Until("the remaining member has all partitions", func() bool { return second() == 4 })
	two.Close()
	return ""
}

func topics(name string) string {
	create(name, 2, map[string]*string{"retention.ms": kadm.StringPtr("86400000")})
	client := admin()
	defer client.Close()
	kit.Get(client.UpdatePartitions(limited(), 3, name))
	described := func() kadm.TopicDetail { return kit.Get(client.ListTopics(limited(), name))[name] }
	kit.Until("three partitions", func() bool { return len(described().Partitions) == 3 })
	brokers := kit.Get(client.ListBrokers(limited())).NodeIDs()
	for _, partition := range described().Partitions {
		kit.Same(slices.Contains(brokers, partition.Replicas[0]), true, "the replica is a broker:")
	}
	kit.Must(kit.Get(client.DeleteTopic(limited(), name)).Err)
	kit.Until("the topic is gone", func() bool { return !kit.Get(client.ListTopics(limited())).Has(name) })
	return ""
}

func configs(name string) string {
	create(name, 1, nil)
	client := admin()
	defer client.Close()
	altered := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: kadm.StringPtr("86400000")}}
	kit.Must(kit.Get(kit.Get(client.AlterTopicConfigs(limited(), altered, name)).On(name, nil)).Err)
	kit.Until("retention.ms is altered", func() bool {
		found := map[string]string{}
		for _, each := range kit.Get(kit.Get(client.DescribeTopicConfigs(limited(), name)).On(name, nil)).Configs {
			found[each.Key] = each.MaybeValue()
		}
		return found["retention.ms"] == "86400000" && found["cleanup.policy"] == "delete"
	})
	return ""
}

// filled makes a topic with three records, whose timestamps are 1000, 2000 and 3000 (ms since the epoch).
func filled(name string) {
	create(name, 1, map[string]*string{"retention.ms": kadm.StringPtr("-1")})
	producer := client()
	defer producer.Close()
	for _, time_ := range []int64{1000, 2000, 3000} {
		record := &kgo.Record{Topic: name, Value: []byte("x"), Timestamp: time.UnixMilli(time_)}
		kit.Must(producer.ProduceSync(limited(), record).FirstErr())
	}
}

func offsetOf(listed kadm.ListedOffsets, err error) func(topic string) int64 {
	kit.Must(err)
	return func(topic string) int64 {
		found, _ := listed.Lookup(topic, 0)
		kit.Must(found.Err)
		return found.Offset
	}
}

func listOffsets(name string) string {
	filled(name)
	client := admin()
	defer client.Close()
	kit.Same(offsetOf(client.ListStartOffsets(limited(), name))(name), int64(0), "start")
	kit.Same(offsetOf(client.ListEndOffsets(limited(), name))(name), int64(3), "end")
	kit.Same(offsetOf(client.ListOffsetsAfterMilli(limited(), 1500, name))(name), int64(1), "offset for 1500")
	kit.Same(offsetOf(client.ListMaxTimestampOffsets(limited(), name))(name), int64(2), "offset of the newest")
	return ""
}

func deleteRecords(name string) string {
	filled(name)
	client := admin()
	defer client.Close()
	var before kadm.Offsets
	before.AddOffset(name, 0, 2, -1)
	deleted, _ := kit.Get(client.DeleteRecords(limited(), before)).Lookup(name, 0)
	kit.Must(deleted.Err)
	kit.Same(deleted.LowWatermark, int64(2), "low watermark")
	kit.Same(offsetOf(client.ListStartOffsets(limited(), name))(name), int64(2), "start")
	kit.Same(read(name), []string{"x"}, "records left")
	return ""
}

func groups(name string) string {
	filled(name)
	consumer := client(kgo.ConsumerGroup(name), kgo.ConsumeTopics(name), kgo.DisableAutoCommit())
	fetches := consumer.PollFetches(limited())
	kit.Must(fetches.Err())
	kit.Must(consumer.CommitRecords(limited(), fetches.Records()...))
	consumer.Close()
	client := admin()
	defer client.Close()
	listed := func() string { return kit.Get(client.ListGroups(limited()))[name].State }
	kit.Until("listed as empty", func() bool { return listed() == "Empty" })
	kit.Same(kit.Get(client.DescribeGroups(limited(), name))[name].State, "Empty", "state")
	at, _ := kit.Get(client.FetchOffsets(limited(), name)).Lookup(name, 0)
	kit.Same(at.At, int64(fetches.NumRecords()), "offset")
	kit.Must(kit.Get(client.DeleteGroup(limited(), name)).Err)
	kit.Same(listed(), "", "listed after its deletion")
	return ""
}

func transactions(name string) string {
	create(name, 1, nil)
	client, producer := admin(), client(kgo.TransactionalID(name))
	defer client.Close()
	defer producer.Close()
	begin(producer)
	send(producer, name, []string{"x"})
	kit.Same(kit.Get(client.ListTransactions(limited(), nil, nil))[name].State, "Ongoing", "listed")
	described := func() kadm.DescribedTransaction { return kit.Get(client.DescribeTransactions(limited(), name))[name] }
	open := described()
	kit.Same(open.State, "Ongoing", "state")
	kit.Same(open.Topics.Lookup(name, 0), true, "has the partition:")
	var topic kadm.TopicsSet
	topic.Add(name, 0)
	for _, state := range kit.Get(client.DescribeProducers(limited(), topic)).SortedProducers() {
		kit.Same([]int64{state.ProducerID, state.CurrentTxnStartOffset}, []int64{open.ProducerID, 0}, "producer")
	}
	kit.Must(end(producer, kgo.TryCommit))
	kit.Until("CompleteCommit", func() bool { return described().State == "CompleteCommit" })
	return ""
}

// access returns the options with which the check of this name connects and logs in.
func access(name string, options ...kgo.Opt) *kgo.Client {
	way := kit.AccessOf(name)
	options = append(options, kgo.SeedBrokers(way.Brokers...), kgo.ClientID(name))
	if config := way.TLS(); config != nil {
		options = append(options, kgo.DialTLSConfig(config))
	}
	switch user := (scram.Auth{User: way.User, Pass: way.Password}); way.Mechanism {
	case "PLAIN":
		options = append(options, kgo.SASL(plain.Auth{User: way.User, Pass: way.Password}.AsMechanism()))
	case "SCRAM-SHA-256":
		options = append(options, kgo.SASL(user.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		options = append(options, kgo.SASL(user.AsSha512Mechanism()))
	case "OAUTHBEARER":
		options = append(options, kgo.SASL(oauth.Auth{Token: way.Token}.AsMechanism()))
	}
	return kit.Get(kgo.NewClient(options...))
}

func secured(name string) string {
	create(name, 1, nil)
	client := access(name, kgo.ConsumeTopics(name))
	defer client.Close()
	send(client, name, []string{"x"})
	fetches := client.PollFetches(limited())
	kit.Must(fetches.Err())
	kit.Same(fetches.NumRecords(), 1, "records")
	return ""
}

func acl(name string) string {
	create(name, 1, nil)
	producer := access(name)
	defer producer.Close()
	err := producer.ProduceSync(limited(), &kgo.Record{Topic: kit.Refused, Value: []byte("x")}).FirstErr()
	if !errors.Is(err, kerr.TopicAuthorizationFailed) {
		panic(fmt.Sprintf("the refused topic came to: %v", err))
	}
	send(producer, name, []string{"x"})
	return "TopicAuthorizationFailed"
}

// throttles counts the responses with a throttle time.
type throttles struct{ longest atomic.Int64 }

func (t *throttles) OnBrokerThrottle(_ kgo.BrokerMetadata, interval time.Duration, _ bool) {
	t.longest.Store(interval.Milliseconds())
}

func quota(name string) string {
	create(name, 1, nil)
	told := &throttles{}
	producer := access(name, kgo.WithHooks(told), kgo.ProducerBatchCompression(kgo.NoCompression()))
	defer producer.Close()
	kit.Must(producer.ProduceSync(limited(), &kgo.Record{Topic: name, Value: make([]byte, kit.Over)}).FirstErr())
	began := time.Now()
	send(producer, name, []string{"x"})
	kit.Until("the throttle is told", func() bool { return told.longest.Load() > 0 })
	return fmt.Sprintf("%s, OnBrokerThrottle was called with %d ms", kit.Waited(began), told.longest.Load())
}
