package ten;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.errors.TopicAuthorizationException;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Disabled;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInfo;
import org.springframework.kafka.test.EmbeddedKafkaKraftBroker;

/** The ten tests of clients/java against spring-kafka's EmbeddedKafka, as far as EmbeddedKafka can express them. */
class TenTest {
    private static final String NO_FAULTS = "it has no faults";
    private static final EmbeddedKafkaKraftBroker BROKER = new EmbeddedKafkaKraftBroker(1, 1);

    static {
        BROKER.brokerProperties(Map.of(
            "authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found", "true", "group.min.session.timeout.ms", "100",
            "group.initial.rebalance.delay.ms", "0",
            "transaction.state.log.replication.factor", "1", "transaction.state.log.min.isr", "1"));
        BROKER.afterPropertiesSet();
    }

    private final List<AutoCloseable> open = new ArrayList<>();
    private final String orders;

    /** Each test has its own topic, because EmbeddedKafka cannot be emptied. */
    TenTest(TestInfo test) {
        orders = "orders-" + test.getTestMethod().orElseThrow().getName();
        BROKER.addTopics(new NewTopic(orders, 2, (short) 1));
    }

    @AfterEach
    void close() throws Exception {
        for (AutoCloseable client : open) client.close();
    }

    @Test
    void produceAndConsume() throws Exception {
        var producer = producer();
        send(producer, "order-1", "tea");
        send(producer, "order-2", "salt");
        assertEquals(List.of("salt", "tea"), values(poll(member(orders), 2)));
    }

    @Test
    @Disabled(NO_FAULTS)
    void aLostAcknowledgementDoublesNothing() {}

    @Test
    void aRecordComesAgainAfterACrash() throws Exception {
        send(producer(), "order-1", "tea");
        var first = member(orders, "group.instance.id", "first", "session.timeout.ms", "1000");
        assertEquals(List.of("tea"), values(poll(first, 1)));
        first.close(); // before a commit; the session ends after a second
        assertEquals(List.of("tea"), values(poll(member(orders), 1)));
    }

    @Test
    void aRebalanceDividesThePartitions() {
        var first = member(orders);
        until(() -> polled(first).assignment().size() == 2);
        var second = member(orders);
        until(() -> polled(first).assignment().size() == 1 & polled(second).assignment().size() == 1);
    }

    @Test
    void anAbortedTransactionLeavesNothing() throws Exception {
        send(producer(), "order-1", "tea");
        BROKER.addTopics("invoices");
        var consumer = member(orders);
        var producer = producer("transactional.id", "invoices");
        producer.initTransactions();
        for (boolean commits : new boolean[] {false, true}) {
            var order = poll(consumer, 1).get(0);
            var partition = new TopicPartition(order.topic(), order.partition());
            producer.beginTransaction();
            producer.send(new ProducerRecord<>("invoices", order.key(), "invoice for " + order.value())).get();
            producer.sendOffsetsToTransaction(Map.of(partition, new OffsetAndMetadata(order.offset() + 1)), consumer.groupMetadata());
            if (commits) {
                producer.commitTransaction();
            } else {
                producer.abortTransaction();
                consumer.seek(partition, order.offset());
            }
        }
        var reader = member("invoices");
        assertEquals(List.of("invoice for tea"), values(poll(reader, 1)));
        assertTrue(reader.poll(Duration.ofMillis(300)).isEmpty());
    }

    @Test
    @Disabled(NO_FAULTS)
    void anErrorThreeTimes() {}

    @Test
    @Disabled(NO_FAULTS)
    void aSlowBroker() {}

    @Test
    @Disabled("it cannot stop and come back")
    void theBrokerIsDownAndComesBack() {}

    @Test
    void denied() throws Exception {
        var denial = new AclBinding(new ResourcePattern(ResourceType.TOPIC, orders, PatternType.LITERAL),
            new AccessControlEntry("User:ANONYMOUS", "*", AclOperation.WRITE, AclPermissionType.DENY));
        try (var admin = Admin.create(settings())) {
            admin.createAcls(List.of(denial)).all().get();
            until(() -> refused() instanceof TopicAuthorizationException);
            admin.deleteAcls(List.of(denial.toFilter())).all().get();
            until(() -> refused() == null);
        }
    }

    @Test
    void recordsWithHeaders() throws Exception {
        var sent = new ProducerRecord<>(orders, "order-1", "tea");
        sent.headers().add("trace", "abc-7".getBytes(StandardCharsets.UTF_8));
        producer().send(sent).get();
        var stored = poll(member(orders), 1).get(0);
        assertEquals("order-1", stored.key());
        assertEquals("abc-7", new String(stored.headers().lastHeader("trace").value(), StandardCharsets.UTF_8));
    }

    /** The reason why an order is refused, or null. */
    private Throwable refused() {
        try {
            send(producer(), "order-1", "tea");
            return null;
        } catch (Exception error) {
            return error instanceof ExecutionException ? error.getCause() : error;
        }
    }

    private Map<String, Object> settings(String... more) {
        var settings = new HashMap<String, Object>(Map.of("bootstrap.servers", BROKER.getBrokersAsString()));
        for (int i = 0; i < more.length; i += 2) settings.put(more[i], more[i + 1]);
        return settings;
    }

    private KafkaProducer<String, String> producer(String... more) {
        var made = new KafkaProducer<>(settings(more), new StringSerializer(), new StringSerializer());
        open.add(made);
        return made;
    }

    private KafkaConsumer<String, String> member(String topic, String... more) {
        var settings = settings(more);
        settings.putAll(Map.of(
            "group.id", topic, "enable.auto.commit", "false", "auto.offset.reset", "earliest",
            "isolation.level", "read_committed", "heartbeat.interval.ms", "100",
            "partition.assignment.strategy", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"));
        var made = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        open.add(made);
        made.subscribe(List.of(topic));
        return made;
    }

    private void send(KafkaProducer<String, String> producer, String id, String what) throws Exception {
        producer.send(new ProducerRecord<>(orders, id, what)).get();
    }

    private static List<String> values(List<ConsumerRecord<String, String>> records) {
        return records.stream().map(ConsumerRecord::value).sorted().toList();
    }

    private static List<ConsumerRecord<String, String>> poll(KafkaConsumer<String, String> consumer, int count) {
        var records = new ArrayList<ConsumerRecord<String, String>>();
        until(() -> {
            consumer.poll(Duration.ofMillis(100)).forEach(records::add);
            return records.size() >= count;
        });
        return records;
    }

    private static KafkaConsumer<String, String> polled(KafkaConsumer<String, String> consumer) {
        consumer.poll(Duration.ofMillis(50));
        return consumer;
    }

    private static void until(BooleanSupplier holds) {
        long end = System.nanoTime() + 30_000_000_000L;
        while (!holds.getAsBoolean()) assertTrue(System.nanoTime() < end, "waited 30 s in vain");
    }
}
