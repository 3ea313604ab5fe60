// The checks with sarama.
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

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
)

func main() {
	checks := map[string]kit.Check{
		"produce": produce, "commit": commit, "abort": abort, "fence": fence,
		"offsets-in-transaction": offsetsInTransaction, "rebalance": rebalance, "topics": topics, "configs": configs,
		"list-offsets": listOffsets, "delete-records": deleteRecords, "groups": groups, "acl": acl, "quota": quota,
	}
	for _, check := range kit.Secured {
		checks[check] = secured
	}
	kit.Run("sarama", "github.com/IBM/sarama", checks)
}

var brokers = []string{kit.Bootstrap()}

func config() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Net.MaxOpenRequests = 1
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Group.Heartbeat.Interval = 200 * time.Millisecond
	return config
}

func producer() sarama.SyncProducer { return kit.Get(sarama.NewSyncProducer(brokers, config())) }

func transactional(id string) sarama.SyncProducer {
	config := config()
	config.Producer.Transaction.ID = id
	return kit.Get(sarama.NewSyncProducer(brokers, config))
}

func admin() sarama.ClusterAdmin { return kit.Get(sarama.NewClusterAdmin(brokers, config())) }

func create(topic string, partitions int32, configs map[string]*string) {
	client := admin()
	defer client.Close()
	detail := &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: 1, ConfigEntries: configs}
	kit.Must(client.CreateTopic(topic, detail, false))
	kit.Until("every partition has a leader", func() bool {
		found := kit.Get(client.DescribeTopics([]string{topic}))[0]
		return len(found.Partitions) == int(partitions) &&
			!slices.ContainsFunc(found.Partitions, func(each *sarama.PartitionMetadata) bool { return each.Leader < 0 })
	})
}

func messages(topic string, values []string) (all []*sarama.ProducerMessage) {
	for _, value := range values {
		text := sarama.StringEncoder(value)
		all = append(all, &sarama.ProducerMessage{Topic: topic, Key: text, Value: text})
	}
	return all
}

// read returns the values of a topic, which should be count values. After the last expected value, it waits a short time for
// unexpected values.
func read(topic string, isolation sarama.IsolationLevel, count int) []string {
	config := config()
	config.Consumer.IsolationLevel = isolation
	consumer := kit.Get(sarama.NewConsumer(brokers, config))
	defer consumer.Close()
	arrived := make(chan string, 100)
	for _, number := range kit.Get(consumer.Partitions(topic)) {
		partition := kit.Get(consumer.ConsumePartition(topic, number, sarama.OffsetOldest))
		defer partition.Close()
		go func() {
			for message := range partition.Messages() {
				arrived <- string(message.Value)
			}
		}()
	}
	values := []string{}
	for patience := kit.Limit; ; {
		if len(values) >= count {
			patience = 700 * time.Millisecond
		}
		select {
		case value := <-arrived:
			values = append(values, value)
		case <-time.After(patience):
			slices.Sort(values)
			return values
		}
	}
}

func produce(name string) string {
	create(name, 2, nil)
	producer := producer()
	defer producer.Close()
	values := kit.Numbered("value", 10)
	sent := messages(name, values)
	kit.Must(producer.SendMessages(sent))
	next := map[int32]int64{}
	for _, message := range sent {
		kit.Same(message.Offset, next[message.Partition], "acknowledged offset")
		next[message.Partition]++
	}
	kit.Same(read(name, sarama.ReadUncommitted, 10), values, "found")
	return ""
}

func commit(name string) string {
	create(name, 2, nil)
	producer := transactional(name)
	defer producer.Close()
	for _, batch := range []string{"one", "two"} {
		kit.Must(producer.BeginTxn())
		kit.Must(producer.SendMessages(messages(name, kit.Numbered(batch, 4))))
		kit.Must(producer.CommitTxn())
	}
	kit.Same(read(name, sarama.ReadCommitted, 8), append(kit.Numbered("one", 4), kit.Numbered("two", 4)...), "found")
	return ""
}

func abort(name string) string {
	create(name, 1, nil)
	producer := transactional(name)
	defer producer.Close()
	for _, value := range []string{"1", "2-aborted", "3"} {
		kit.Must(producer.BeginTxn())
		kit.Must(producer.SendMessages(messages(name, []string{value})))
		if strings.HasSuffix(value, "aborted") {
			kit.Must(producer.AbortTxn())
		} else {
			kit.Must(producer.CommitTxn())
		}
	}
	kit.Same(read(name, sarama.ReadCommitted, 2), []string{"1", "3"}, "read_committed saw")
	kit.Same(read(name, sarama.ReadUncommitted, 3), []string{"1", "2-aborted", "3"}, "read_uncommitted saw")
	return ""
}

func fence(name string) string {
	create(name, 1, nil)
	zombie := transactional(name)
	kit.Must(zombie.BeginTxn())
	kit.Must(zombie.SendMessages(messages(name, []string{"zombie"})))
	heir := transactional(name)
	defer heir.Close()
	kit.Must(heir.BeginTxn())
	kit.Must(heir.SendMessages(messages(name, []string{"heir"})))
	err := zombie.CommitTxn()
	if !errors.Is(err, sarama.ErrInvalidProducerEpoch) && !errors.Is(err, sarama.ErrProducerFenced) {
		panic(fmt.Sprintf("the zombie's commit came to: %v", err))
	}
	kit.Must(heir.CommitTxn())
	kit.Same(read(name, sarama.ReadCommitted, 1), []string{"heir"}, "found")
	if errors.Is(err, sarama.ErrProducerFenced) {
		return "ErrProducerFenced"
	}
	return "ErrInvalidProducerEpoch"
}

// member handles a session of a group: it counts the assigned partitions, and passes on their messages.
type member struct {
	owned    atomic.Int64
	messages chan *sarama.ConsumerMessage
	group    sarama.ConsumerGroup
	leave    context.CancelFunc
}

func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	for _, partitions := range session.Claims() {
		m.owned.Store(int64(len(partitions)))
	}
	return nil
}

func (m *member) Cleanup(sarama.ConsumerGroupSession) error {
	m.owned.Store(0)
	return nil
}

func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, more := <-claim.Messages():
			if !more {
				return nil
			}
			session.MarkMessage(message, "")
			m.messages <- message
		case <-session.Context().Done():
			return nil
		}
	}
}

// join joins a group. If commits is true, the group commits the consumed messages.
func join(group, topic string, commits bool) *member {
	config := config()
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	config.Consumer.Offsets.AutoCommit.Enable = commits
	ctx, leave := context.WithCancel(context.Background())
	joined := &member{group: kit.Get(sarama.NewConsumerGroup(brokers, group, config)), leave: leave}
	joined.messages = make(chan *sarama.ConsumerMessage, 100)
	go func() {
		for ctx.Err() == nil {
			if err := joined.group.Consume(ctx, []string{topic}, joined); err != nil && ctx.Err() == nil {
				fmt.Println("consume:", err)
			}
		}
	}()
	return joined
}

func (m *member) next() *sarama.ConsumerMessage {
	select {
	case message := <-m.messages:
		return message
	case <-time.After(kit.Limit):
		panic("no message came")
	}
}

func (m *member) close() {
	m.leave()
	kit.Must(m.group.Close())
}

func rebalance(name string) string {
	create(name, 4, nil)
	one := join(name, name, false)
	kit.Until("one member has all partitions", func() bool { return one.owned.Load() == 4 })
	two := join(name, name, false)
	kit.Until("two members have two partitions each", func() bool { return one.owned.Load() == 2 && two.owned.Load() == 2 })
	one.close()
	kit.Until("the remaining member has all partitions", func() bool { return two.owned.Load() == 4 })
	two.close()
	return ""
}

func offsetsInTransaction(name string) string {
	source, target := name+"-source", name+"-target"
	create(source, 1, nil)
	create(target, 1, nil)
	plain := producer()
	defer plain.Close()
	kit.Must(plain.SendMessages(messages(source, kit.Numbered("in", 6))))
	producer := transactional(name)
	defer producer.Close()
	for _, round := range []struct {
		end      func() error
		expected int64
	}{{producer.CommitTxn, 3}, {producer.AbortTxn, 3}, {producer.CommitTxn, 6}} {
		consumer := join(name, source, false)
		kit.Must(producer.BeginTxn())
		for range 3 {
			message := consumer.next()
			value := strings.Replace(string(message.Value), "in", "out", 1)
			kit.Must(producer.SendMessages(messages(target, []string{value})))
			kit.Must(producer.AddMessageToTxn(message, name, nil))
		}
		kit.Must(round.end())
		kit.Until("the committed offset", func() bool { return offset(name, source) == round.expected })
		consumer.close()
	}
	kit.Same(read(target, sarama.ReadCommitted, 6), kit.Numbered("out", 6), "found")
	return ""
}

// offset returns the offset that a group has committed for a topic's first partition.
func offset(group, topic string) int64 {
	client := admin()
	defer client.Close()
	found := kit.Get(client.ListConsumerGroupOffsets(group, map[string][]int32{topic: {0}}))
	return found.GetBlock(topic, 0).Offset
}

func topics(name string) string {
	value := "86400000"
	create(name, 2, map[string]*string{"retention.ms": &value})
	client := admin()
	defer client.Close()
	kit.Must(client.CreatePartitions(name, 3, nil, false))
	described := func() *sarama.TopicMetadata { return kit.Get(client.DescribeTopics([]string{name}))[0] }
	kit.Until("three partitions", func() bool { return len(described().Partitions) == 3 })
	brokers, _, err := client.DescribeCluster()
	kit.Must(err)
	for _, partition := range described().Partitions {
		is := func(broker *sarama.Broker) bool { return broker.ID() == partition.Replicas[0] }
		kit.Same(slices.ContainsFunc(brokers, is), true, "the replica is a broker:")
	}
	kit.Must(client.DeleteTopic(name))
	kit.Until("the topic is gone", func() bool {
		_, there := kit.Get(client.ListTopics())[name]
		return !there
	})
	return ""
}

func configs(name string) string {
	create(name, 1, nil)
	client := admin()
	defer client.Close()
	value := "86400000"
	set := sarama.IncrementalAlterConfigsEntry{Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &value}
	entries := map[string]sarama.IncrementalAlterConfigsEntry{"retention.ms": set}
	kit.Must(client.IncrementalAlterConfig(sarama.TopicResource, name, entries, false))
	kit.Until("retention.ms is altered", func() bool {
		found := map[string]string{}
		for _, each := range kit.Get(client.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: name})) {
			found[each.Name] = each.Value
		}
		return found["retention.ms"] == value && found["cleanup.policy"] == "delete"
	})
	return ""
}

// filled makes a topic with three records, whose timestamps are 1000, 2000 and 3000 (ms since the epoch).
func filled(name string) {
	forever := "-1"
	create(name, 1, map[string]*string{"retention.ms": &forever})
	producer := producer()
	defer producer.Close()
	for _, at := range []int64{1000, 2000, 3000} {
		message := &sarama.ProducerMessage{Topic: name, Value: sarama.StringEncoder("x"), Timestamp: time.UnixMilli(at)}
		_, _, err := producer.SendMessage(message)
		kit.Must(err)
	}
}

func listed(client sarama.ClusterAdmin, name string, at int64) int64 {
	found := kit.Get(client.ListOffsets(map[string]map[int32]int64{name: {0: at}}, nil))[name][0]
	kit.Same(found.Err, sarama.ErrNoError, "error")
	return found.Offset
}

func listOffsets(name string) string {
	filled(name)
	client := admin()
	defer client.Close()
	kit.Same(listed(client, name, sarama.OffsetOldest), int64(0), "oldest")
	kit.Same(listed(client, name, sarama.OffsetNewest), int64(3), "newest")
	kit.Same(listed(client, name, 1500), int64(1), "offset for 1500")
	return ""
}

func deleteRecords(name string) string {
	filled(name)
	client := admin()
	defer client.Close()
	kit.Must(client.DeleteRecords(name, map[int32]int64{0: 2}))
	kit.Same(listed(client, name, sarama.OffsetOldest), int64(2), "oldest")
	kit.Same(read(name, sarama.ReadUncommitted, 1), []string{"x"}, "records left")
	return ""
}

func groups(name string) string {
	filled(name)
	consumer := join(name, name, true)
	for range 3 {
		consumer.next()
	}
	consumer.close()
	client := admin()
	defer client.Close()
	there := func() bool {
		_, found := kit.Get(client.ListConsumerGroups())[name]
		return found
	}
	kit.Same(there(), true, "listed:")
	kit.Same(kit.Get(client.DescribeConsumerGroups([]string{name}))[0].State, "Empty", "state")
	kit.Same(offset(name, name), int64(3), "offset")
	kit.Must(client.DeleteConsumerGroup(name))
	kit.Same(there(), false, "listed:")
	return ""
}

// login is a SCRAM exchange, which users of sarama have to implement.
type login struct {
	hash scram.HashGeneratorFcn
	*scram.ClientConversation
}

func (l *login) Begin(user, password, authzID string) error {
	client, err := l.hash.NewClient(user, password, authzID)
	if err == nil {
		l.ClientConversation = client.NewConversation()
	}
	return err
}

type token string

func (t token) Token() (*sarama.AccessToken, error) {
	return &sarama.AccessToken{Token: string(t)}, nil
}

// access returns the brokers' addresses and the settings with which the check of this name connects and logs in.
func access(name string) ([]string, *sarama.Config) {
	way, config := kit.AccessOf(name), config()
	config.ClientID = name
	config.Net.TLS.Config = way.TLS()
	config.Net.TLS.Enable = config.Net.TLS.Config != nil
	config.Net.SASL.Enable = way.Mechanism != ""
	config.Net.SASL.Mechanism = sarama.SASLMechanism(way.Mechanism)
	config.Net.SASL.User, config.Net.SASL.Password = way.User, way.Password
	hashes := map[string]scram.HashGeneratorFcn{"SCRAM-SHA-256": scram.SHA256, "SCRAM-SHA-512": scram.SHA512}
	if hash, ok := hashes[way.Mechanism]; ok {
		config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &login{hash: hash} }
	}
	if way.Token != "" {
		config.Net.SASL.TokenProvider = token(way.Token)
	}
	return way.Brokers, config
}

func secured(name string) string {
	create(name, 1, nil)
	brokers, config := access(name)
	producer := kit.Get(sarama.NewSyncProducer(brokers, config))
	defer producer.Close()
	kit.Must(producer.SendMessages(messages(name, []string{"x"})))
	consumer := kit.Get(sarama.NewConsumer(brokers, config))
	defer consumer.Close()
	partition := kit.Get(consumer.ConsumePartition(name, 0, sarama.OffsetOldest))
	defer partition.Close()
	select {
	case message := <-partition.Messages():
		kit.Same(string(message.Value), "x", "record")
	case <-time.After(kit.Limit):
		panic("no record came")
	}
	return ""
}

func acl(name string) string {
	create(name, 1, nil)
	brokers, config := access(name)
	producer := kit.Get(sarama.NewSyncProducer(brokers, config))
	defer producer.Close()
	_, _, err := producer.SendMessage(messages(kit.Refused, []string{"x"})[0])
	if !errors.Is(err, sarama.ErrTopicAuthorizationFailed) {
		panic(fmt.Sprintf("the refused topic came to: %v", err))
	}
	kit.Must(producer.SendMessages(messages(name, []string{"x"})))
	return "ErrTopicAuthorizationFailed"
}

func quota(name string) string {
	create(name, 1, nil)
	brokers, config := access(name)
	producer := kit.Get(sarama.NewSyncProducer(brokers, config))
	defer producer.Close()
	large := &sarama.ProducerMessage{Topic: name, Value: sarama.ByteEncoder(make([]byte, kit.Over))}
	kit.Must(producer.SendMessages([]*sarama.ProducerMessage{large}))
	began := time.Now()
	kit.Must(producer.SendMessages(messages(name, []string{"x"})))
	return kit.Waited(began)
}
