// The checks with the Java client: java -cp 'JARS/*' Interop.java BOOTSTRAP PREFIX CHECK...

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.GroupNotEmptyException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class Interop {
    /** The client's version. Since 4.4, the class that returns the version is in another package. */
    static String version() throws Exception {
        java.util.Properties told = new java.util.Properties();
        try (java.io.InputStream file = Interop.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            told.load(file);
        }
        return told.getProperty("version").trim();
    }

    static final Duration LIMIT = Duration.ofSeconds(20);

    static final List<String> SECURED =
        List.of("tls", "mtls", "sasl-plain", "scram-sha-256", "scram-sha-512", "oauthbearer");

    static String bootstrap;

    interface Check {
        String run(String name) throws Exception;
    }

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        Map<String, Check> checks = new LinkedHashMap<>();
        checks.put("produce", Interop::produce);
        checks.put("commit", Interop::commit);
        checks.put("abort", Interop::abort);
        checks.put("fence", Interop::fence);
        checks.put("offsets-in-transaction", Interop::offsetsInTransaction);
        checks.put("rebalance", name -> rebalance(name, "classic"));
        checks.put("rebalance-848", name -> rebalance(name, "consumer"));
        checks.put("share-group", Interop::shareGroup);
        checks.put("topics", Interop::topics);
        checks.put("configs", Interop::configs);
        checks.put("list-offsets", Interop::listOffsets);
        checks.put("delete-records", Interop::deleteRecords);
        checks.put("groups", Interop::groups);
        checks.put("transactions", Interop::transactions);
        for (String check : SECURED) checks.put(check, Interop::secured);
        checks.put("acl", Interop::acl);
        checks.put("quota", Interop::quota);
        System.out.printf("{\"client\": \"java\", \"version\": \"%s\"}%n", version());
        for (String check : Arrays.asList(args).subList(2, args.length)) {
            long began = System.nanoTime();
            String result = checks.containsKey(check) ? "pass" : "not offered";
            String detail = "";
            try {
                if (checks.containsKey(check)) detail = checks.get(check).run(args[1] + "-" + check);
            } catch (Throwable error) {
                error.printStackTrace();
                result = "fail";
                detail = (error instanceof ExecutionException ? error.getCause() : error).toString();
            }
            System.out.printf("{\"check\": \"%s\", \"result\": \"%s\", \"detail\": \"%s\", \"seconds\": %.2f}%n",
                check, result, escaped(detail), (System.nanoTime() - began) / 1e9);
        }
        System.exit(0);
    }

    static String escaped(String text) {
        return text.replace("\\", "\\\\").replace("\"", "\\\"").replaceAll("\\s+", " ");
    }

    // Helpers

    static void same(Object found, Object expected, String what) {
        if (!expected.equals(found)) throw new AssertionError(what + " " + found + ", expected " + expected);
    }

    static void until(Callable<Boolean> condition, String what) throws Exception {
        long deadline = System.nanoTime() + LIMIT.toNanos();
        while (!condition.call()) {
            if (System.nanoTime() > deadline) throw new AssertionError("after 20 s this is still not so: " + what);
        }
    }

    static <T> T get(Future<T> future) throws Exception {
        return future.get(LIMIT.toSeconds(), TimeUnit.SECONDS);
    }

    static List<String> numbered(String word, int count) {
        return IntStream.range(0, count).mapToObj(number -> word + "-" + number).sorted().collect(Collectors.toList());
    }

    static Admin admin() {
        return Admin.create(Map.of("bootstrap.servers", bootstrap));
    }

    static KafkaProducer<String, String> producer(Map<String, Object> settings) {
        Map<String, Object> all = new HashMap<>(settings);
        all.put("bootstrap.servers", bootstrap);
        return new KafkaProducer<>(all, new StringSerializer(), new StringSerializer());
    }

    static KafkaProducer<String, String> transactional(String id) {
        KafkaProducer<String, String> producer = producer(Map.of("transactional.id", id));
        producer.initTransactions();
        return producer;
    }

    static KafkaConsumer<String, String> consumer(Map<String, Object> settings) {
        Map<String, Object> all = new HashMap<>(settings);
        all.put("bootstrap.servers", bootstrap);
        all.put("enable.auto.commit", false);
        all.put("auto.offset.reset", "earliest");
        return new KafkaConsumer<>(all, new StringDeserializer(), new StringDeserializer());
    }

    /** Creates a topic, waits for its leaders, and returns its first partition. */
    static TopicPartition create(String topic, int partitions, Map<String, String> configs) throws Exception {
        try (Admin admin = admin()) {
            NewTopic wanted = new NewTopic(topic, Optional.of(partitions), Optional.empty()).configs(configs);
            get(admin.createTopics(List.of(wanted)).all());
            until(() -> {
                try {
                    TopicDescription found = get(admin.describeTopics(List.of(topic)).allTopicNames()).get(topic);
                    return found.partitions().stream().allMatch(each -> each.leader() != null);
                } catch (ExecutionException notYet) {
                    return false;
                }
            }, "every partition has a leader");
        }
        return new TopicPartition(topic, 0);
    }

    static List<RecordMetadata> send(KafkaProducer<String, String> producer, String topic, List<String> values)
            throws Exception {
        List<Future<RecordMetadata>> futures = new ArrayList<>();
        for (String value : values) futures.add(producer.send(new ProducerRecord<>(topic, value, value)));
        List<RecordMetadata> told = new ArrayList<>();
        for (Future<RecordMetadata> future : futures) told.add(get(future));
        return told;
    }

    /** Returns all values that are visible at this isolation level. */
    static List<String> read(String topic, String isolation) throws Exception {
        List<String> found = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = consumer(Map.of("isolation.level", isolation))) {
            List<TopicPartition> partitions = consumer.partitionsFor(topic).stream()
                .map(each -> new TopicPartition(topic, each.partition())).collect(Collectors.toList());
            consumer.assign(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            until(() -> {
                consumer.poll(Duration.ofMillis(100)).forEach(record -> found.add(record.value()));
                return partitions.stream().allMatch(each -> consumer.position(each) >= ends.get(each));
            }, "positions at " + ends);
        }
        Collections.sort(found);
        return found;
    }

    // Checks

    static String produce(String name) throws Exception {
        create(name, 2, Map.of());
        List<String> values = numbered("value", 20);
        try (KafkaProducer<String, String> producer = producer(Map.of("enable.idempotence", true, "acks", "all"))) {
            Map<Integer, List<Long>> offsets = new HashMap<>();
            for (RecordMetadata each : send(producer, name, values)) {
                offsets.computeIfAbsent(each.partition(), partition -> new ArrayList<>()).add(each.offset());
            }
            for (List<Long> each : offsets.values()) {
                same(each, IntStream.range(0, each.size()).mapToObj(Long::valueOf).collect(Collectors.toList()), "told");
            }
        }
        same(read(name, "read_committed"), values, "found");
        return "";
    }

    static String commit(String name) throws Exception {
        create(name, 2, Map.of());
        try (KafkaProducer<String, String> producer = transactional(name)) {
            for (String batch : List.of("one", "two")) {
                producer.beginTransaction();
                send(producer, name, numbered(batch, 4));
                producer.commitTransaction();
            }
        }
        List<String> expected = numbered("one", 4);
        expected.addAll(numbered("two", 4));
        same(read(name, "read_committed"), expected, "found");
        return "";
    }

    static String abort(String name) throws Exception {
        create(name, 1, Map.of());
        try (KafkaProducer<String, String> producer = transactional(name)) {
            for (String value : List.of("1", "2-aborted", "3")) {
                producer.beginTransaction();
                send(producer, name, List.of(value));
                if (value.endsWith("aborted")) producer.abortTransaction();
                else producer.commitTransaction();
            }
        }
        same(read(name, "read_committed"), List.of("1", "3"), "read_committed saw");
        same(read(name, "read_uncommitted"), List.of("1", "2-aborted", "3"), "read_uncommitted saw");
        return "";
    }

    static String fence(String name) throws Exception {
        create(name, 1, Map.of());
        KafkaProducer<String, String> zombie = transactional(name);
        zombie.beginTransaction();
        send(zombie, name, List.of("zombie"));
        String told = "";
        try (KafkaProducer<String, String> heir = transactional(name)) {
            heir.beginTransaction();
            send(heir, name, List.of("heir"));
            try {
                zombie.commitTransaction();
                throw new AssertionError("the zombie could commit");
            } catch (ProducerFencedException | InvalidProducerEpochException error) {
                told = error.getClass().getSimpleName();
            }
            heir.commitTransaction();
        }
        zombie.close(Duration.ZERO);
        same(read(name, "read_committed"), List.of("heir"), "found");
        return told;
    }

    static String offsetsInTransaction(String name) throws Exception {
        TopicPartition source = create(name + "-source", 1, Map.of());
        String target = name + "-target";
        create(target, 1, Map.of());
        try (KafkaProducer<String, String> producer = producer(Map.of())) {
            send(producer, source.topic(), numbered("in", 6));
        }
        try (KafkaProducer<String, String> producer = transactional(name)) {
            for (int round = 0; round < 3; round++) {
                boolean aborts = round == 1;
                Map<String, Object> settings = Map.of(
                    "group.id", name, "isolation.level", "read_committed", "max.poll.records", 3);
                try (KafkaConsumer<String, String> consumer = consumer(settings)) {
                    consumer.subscribe(List.of(source.topic()));
                    List<ConsumerRecord<String, String>> records = new ArrayList<>();
                    until(() -> {
                        consumer.poll(Duration.ofMillis(200)).forEach(records::add);
                        return !records.isEmpty();
                    }, "records of the source");
                    producer.beginTransaction();
                    send(producer, target,
                        records.stream().map(each -> each.value().replace("in", "out")).collect(Collectors.toList()));
                    producer.sendOffsetsToTransaction(
                        Map.of(source, new OffsetAndMetadata(consumer.position(source))), consumer.groupMetadata());
                    if (aborts) producer.abortTransaction();
                    else producer.commitTransaction();
                    same(consumer.committed(Set.of(source)).get(source).offset(), round < 2 ? 3L : 6L, "committed");
                }
            }
        }
        same(read(target, "read_committed"), numbered("out", 6), "found");
        return "";
    }

    static String rebalance(String name, String protocol) throws Exception {
        create(name, 4, Map.of());
        Map<String, Object> settings = new HashMap<>(Map.of("group.id", name, "group.protocol", protocol));
        if (protocol.equals("classic")) settings.put("heartbeat.interval.ms", 200);
        KafkaConsumer<String, String> one = consumer(settings);
        KafkaConsumer<String, String> two = consumer(settings);
        one.subscribe(List.of(name));
        until(() -> shared(List.of(one)), "one member has all partitions");
        two.subscribe(List.of(name));
        until(() -> shared(List.of(one, two)), "two members have two partitions each");
        try (Admin admin = admin()) {
            ConsumerGroupDescription found = get(admin.describeConsumerGroups(List.of(name)).all()).get(name);
            same(found.members().size(), 2, "members");
            same(found.type().toString().toLowerCase(), protocol, "type");
        }
        one.close();
        until(() -> shared(List.of(two)), "the remaining member has all partitions");
        two.close();
        return "";
    }

    /** Two consumers of a share group get every record. A record that a consumer releases is delivered again. */
    static String shareGroup(String name) throws Exception {
        create(name, 2, Map.of());
        ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, name);
        ConfigEntry earliest = new ConfigEntry("share.auto.offset.reset", "earliest");
        try (Admin admin = admin(); KafkaProducer<String, String> producer = producer(Map.of())) {
            get(admin.incrementalAlterConfigs(Map.of(group, List.of(new AlterConfigOp(earliest, AlterConfigOp.OpType.SET)))).all());
            send(producer, name, numbered("value", 20));
            Set<String> accepted = new HashSet<>();
            Set<String> again = new HashSet<>();
            try (KafkaShareConsumer<String, String> one = shareConsumer(name);
                KafkaShareConsumer<String, String> two = shareConsumer(name)) {
                until(() -> {
                    for (KafkaShareConsumer<String, String> consumer : List.of(one, two)) {
                        for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                            boolean first = record.deliveryCount().orElse((short) 0) == 1;
                            boolean release = first && record.value().endsWith("5");
                            if (!first) again.add(record.value());
                            if (!release) accepted.add(record.value());
                            consumer.acknowledge(record, release ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT);
                        }
                        consumer.commitSync();
                    }
                    return accepted.size() == 20;
                }, "every record is accepted");
            }
            same(again, Set.of("value-5", "value-15"), "delivered again");
            ShareGroupDescription found = get(admin.describeShareGroups(List.of(name)).all()).get(name);
            same(found.groupId(), name, "group");
            until(() -> {
                try {
                    get(admin.deleteShareGroups(List.of(name)).all());
                    return true;
                } catch (ExecutionException error) {
                    if (error.getCause() instanceof GroupNotEmptyException) return false;
                    throw error;
                }
            }, "the group is empty and deleted");
        }
        return "";
    }

    static KafkaShareConsumer<String, String> shareConsumer(String name) {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", bootstrap, "group.id", name, "share.acknowledgement.mode", "explicit");
        var consumer = new KafkaShareConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(name));
        return consumer;
    }

    static boolean shared(List<KafkaConsumer<String, String>> members) {
        Set<TopicPartition> all = new HashSet<>();
        boolean even = true;
        for (KafkaConsumer<String, String> member : members) {
            member.poll(Duration.ofMillis(50));
            even &= member.assignment().size() == 4 / members.size();
            all.addAll(member.assignment());
        }
        return even && all.size() == 4;
    }

    static String topics(String name) throws Exception {
        create(name, 2, Map.of("retention.ms", "86400000"));
        try (Admin admin = admin()) {
            get(admin.createPartitions(Map.of(name, NewPartitions.increaseTo(3))).all());
            until(() -> describe(admin, name).partitions().size() == 3, "three partitions");
            Collection<?> nodes = get(admin.describeCluster().nodes());
            describe(admin, name).partitions().forEach(
                each -> same(nodes.containsAll(each.replicas()), true, "replicas are nodes:"));
            get(admin.deleteTopics(TopicCollection.ofTopicNames(List.of(name))).all());
            until(() -> !get(admin.listTopics().names()).contains(name), "the topic is gone");
        }
        return "";
    }

    static TopicDescription describe(Admin admin, String topic) throws Exception {
        return get(admin.describeTopics(List.of(topic)).allTopicNames()).get(topic);
    }

    static String configs(String name) throws Exception {
        create(name, 1, Map.of());
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, name);
        try (Admin admin = admin()) {
            AlterConfigOp set = new AlterConfigOp(
                new ConfigEntry("retention.ms", "86400000"), AlterConfigOp.OpType.SET);
            get(admin.incrementalAlterConfigs(Map.of(topic, List.of(set))).all());
            until(() -> {
                Config found = get(admin.describeConfigs(List.of(topic)).all()).get(topic);
                return found.get("retention.ms").value().equals("86400000")
                    && found.get("cleanup.policy").value().equals("delete");
            }, "retention.ms is altered");
        }
        return "";
    }

    /** Makes a partition with three records, whose timestamps are 1000, 2000 and 3000 (ms since the epoch). */
    static TopicPartition filled(String name) throws Exception {
        TopicPartition partition = create(name, 1, Map.of("retention.ms", "-1"));
        try (KafkaProducer<String, String> producer = producer(Map.of())) {
            for (long time : List.of(1000L, 2000L, 3000L)) {
                get(producer.send(new ProducerRecord<>(name, 0, time, null, "x")));
            }
        }
        return partition;
    }

    static long offset(Admin admin, TopicPartition partition, OffsetSpec spec) throws Exception {
        return get(admin.listOffsets(Map.of(partition, spec)).all()).get(partition).offset();
    }

    static String listOffsets(String name) throws Exception {
        TopicPartition partition = filled(name);
        try (Admin admin = admin()) {
            same(offset(admin, partition, OffsetSpec.earliest()), 0L, "earliest");
            same(offset(admin, partition, OffsetSpec.latest()), 3L, "latest");
            same(offset(admin, partition, OffsetSpec.forTimestamp(1500)), 1L, "offset for 1500");
            same(offset(admin, partition, OffsetSpec.maxTimestamp()), 2L, "offset of the newest");
        }
        return "";
    }

    static String deleteRecords(String name) throws Exception {
        TopicPartition partition = filled(name);
        try (Admin admin = admin()) {
            DeleteRecordsResult result = admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(2)));
            same(get(result.lowWatermarks().get(partition)).lowWatermark(), 2L, "low watermark");
            same(offset(admin, partition, OffsetSpec.earliest()), 2L, "earliest");
        }
        same(read(name, "read_committed"), List.of("x"), "records left");
        return "";
    }

    static String groups(String name) throws Exception {
        TopicPartition partition = filled(name);
        try (KafkaConsumer<String, String> consumer = consumer(Map.of("group.id", name))) {
            consumer.subscribe(List.of(name));
            until(() -> !consumer.poll(Duration.ofMillis(200)).isEmpty(), "records");
            consumer.commitSync();
        }
        try (Admin admin = admin()) {
            same(listed(admin, name), List.of("Empty"), "listed");
            same(get(admin.describeConsumerGroups(List.of(name)).all()).get(name).groupState().toString(), "Empty", "is");
            Map<TopicPartition, OffsetAndMetadata> offsets =
                get(admin.listConsumerGroupOffsets(name).partitionsToOffsetAndMetadata());
            same(offsets.get(partition).offset(), 3L, "offset");
            get(admin.deleteConsumerGroups(List.of(name)).all());
            same(listed(admin, name), List.of(), "listed");
        }
        return "";
    }

    static List<String> listed(Admin admin, String group) throws Exception {
        return get(admin.listGroups().all()).stream().filter(each -> each.groupId().equals(group))
            .map(each -> each.groupState().get().toString()).collect(Collectors.toList());
    }

    /** With transaction.version 2 (KIP-890) the epoch is one higher after every transaction. */
    static String transactions(String name) throws Exception {
        TopicPartition partition = create(name, 1, Map.of());
        try (Admin admin = admin(); KafkaProducer<String, String> producer = transactional(name)) {
            FeatureMetadata features = get(admin.describeFeatures().featureMetadata());
            int version = features.finalizedFeatures().containsKey("transaction.version")
                ? features.finalizedFeatures().get("transaction.version").maxVersionLevel() : 0;
            producer.beginTransaction();
            send(producer, name, List.of("x"));
            same(get(admin.listTransactions().all()).stream().filter(each -> each.transactionalId().equals(name))
                .map(each -> each.state().toString()).collect(Collectors.toList()), List.of("Ongoing"), "listed");
            TransactionDescription open = transaction(admin, name);
            same(open.state(), TransactionState.ONGOING, "state");
            same(open.topicPartitions(), Set.of(partition), "partitions");
            ProducerState state = get(admin.describeProducers(List.of(partition)).all()).get(partition)
                .activeProducers().get(0);
            same(state.producerId(), open.producerId(), "producer");
            same(state.currentTransactionStartOffset().getAsLong(), 0L, "start of the transaction");
            producer.commitTransaction();
            until(() -> transaction(admin, name).state() == TransactionState.COMPLETE_COMMIT, "CompleteCommit");
            same(transaction(admin, name).producerEpoch() - open.producerEpoch(), version >= 2 ? 1 : 0, "epochs more");
            return "transaction.version " + version;
        }
    }

    static TransactionDescription transaction(Admin admin, String id) throws Exception {
        return get(admin.describeTransactions(List.of(id)).all()).get(id);
    }

    // Secured listeners

    /** The settings with which the check of this name connects and logs in. */
    static Map<String, Object> access(String name) throws Exception {
        JsonNode known = new ObjectMapper().readTree(new File(System.getenv("INTEROP_ACCESS")));
        Map<String, Object> settings = new HashMap<>();
        known.fields().forEachRemaining(check -> {
            if (name.endsWith("-" + check.getKey())) {
                check.getValue().get("java").fields().forEachRemaining(
                    each -> settings.put(each.getKey(), each.getValue().asText()));
            }
        });
        settings.put("client.id", name);
        return settings;
    }

    static KafkaProducer<String, String> securedProducer(String name) throws Exception {
        return new KafkaProducer<>(access(name), new StringSerializer(), new StringSerializer());
    }

    static String secured(String name) throws Exception {
        TopicPartition partition = create(name, 1, Map.of());
        try (KafkaProducer<String, String> producer = securedProducer(name)) {
            send(producer, name, List.of("x"));
        }
        Map<String, Object> settings = access(name);
        settings.put("auto.offset.reset", "earliest");
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(List.of(partition));
            until(() -> !consumer.poll(Duration.ofMillis(200)).isEmpty(), "the record");
        }
        return "";
    }

    static String acl(String name) throws Exception {
        create(name, 1, Map.of());
        try (KafkaProducer<String, String> producer = securedProducer(name)) {
            String told = "";
            try {
                send(producer, "interop-refused", List.of("x"));
                throw new AssertionError("the topic could be written");
            } catch (ExecutionException error) {
                told = error.getCause().getClass().getSimpleName();
                same(told, "TopicAuthorizationException", "error");
            }
            send(producer, name, List.of("x"));
            return told;
        }
    }

    static String quota(String name) throws Exception {
        create(name, 1, Map.of());
        try (KafkaProducer<String, String> producer = securedProducer(name)) {
            get(producer.send(new ProducerRecord<>(name, "x".repeat(115_000)))); // 1.5 s
            long began = System.nanoTime();
            send(producer, name, List.of("x"));
            double waited = (System.nanoTime() - began) / 1e9;
            same(waited >= 1, true, "waited " + waited + " s:");
            Object told = producer.metrics().values().stream()
                .filter(each -> each.metricName().name().equals("produce-throttle-time-max")).findFirst().get().metricValue();
            return String.format("waited %.1f s, produce-throttle-time-max is %.0f", waited, told);
        }
    }
}
