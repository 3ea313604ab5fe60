package acceptance;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static wirebroker.KafkaRecord.regex;
import static wirebroker.KafkaRecord.subset;

import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TopicAuthorizationException;
import org.junit.jupiter.api.Test;
import wirebroker.Broker;
import wirebroker.Fault;
import wirebroker.KafkaRecord;
import wirebroker.Wirebroker;

/** The ten tests that every library has, here with Kafka's own client. */
@Wirebroker(topics = "orders:3")
class AcceptanceTest extends Clients {
    private static final String DENIAL = "deny User:ANONYMOUS WRITE TOPIC orders";

    AcceptanceTest(Broker broker) {
        super(broker);
    }

    @Test
    void produceAndConsume() throws Exception {
        var producer = producer();
        send(producer, "order-1", "tea");
        send(producer, "order-2", "salt");

        broker.assertRecords("orders", KafkaRecord.of("order-1", "tea"), KafkaRecord.of("order-2", "salt"));
        assertEquals(List.of("salt", "tea"), values(poll(member("produce-and-consume"), 2)));
    }

    @Test
    void aLostAcknowledgementDoublesNothing() throws Exception {
        var lost = broker.addFault(Fault.loseAck().api("Produce").topic("orders").nth(1));
        send(producer(), "order-1", "tea");

        lost.assertFired();
        assertEquals(List.of("accepted", "duplicate"), broker.verdicts("orders"));
        broker.assertRecords("orders", KafkaRecord.of("order-1", "tea"));
    }

    @Test
    void aRecordComesAgainAfterACrash() {
        broker.produce("orders", KafkaRecord.of("order-1", "tea"));
        // With an instance id, a member that ends does not leave its group: the coordinator waits for it, as after a crash.
        var first = member("crash", "group.instance.id", "first");
        assertEquals(List.of("tea"), values(poll(first, 1)));
        first.close(); // before a commit

        broker.advance(Duration.ofMinutes(1)); // the session of the member ends
        assertEquals(List.of("tea"), values(poll(member("crash"), 1)));
    }

    @Test
    @Wirebroker(topics = "orders:2", own = true)
    void aRebalanceDividesThePartitions() {
        var first = member("rebalance");
        until(() -> polled(first).assignment().size() == 2);
        var second = member("rebalance");
        until(() -> polled(first).assignment().size() == 1 & polled(second).assignment().size() == 1); // & polls both
        assertFalse(first.assignment().containsAll(second.assignment()));
    }

    @Test
    @Wirebroker(topics = {"orders:3", "invoices:1"})
    void anAbortedTransactionLeavesNothing() throws Exception {
        broker.produce("orders", KafkaRecord.of("order-1", "tea"));
        var consumer = member("invoices");
        var producer = producer("transactional.id", "invoices");
        producer.initTransactions();
        for (boolean commits : new boolean[] {false, true}) { // the first attempt fails, and its input comes again
            var order = poll(consumer, 1).get(0);
            var partition = new TopicPartition(order.topic(), order.partition());
            producer.beginTransaction();
            producer.send(new ProducerRecord<>("invoices", order.key(), "invoice for " + order.value())).get();
            var offsets = Map.of(partition, new OffsetAndMetadata(order.offset() + 1));
            producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
            if (commits) {
                producer.commitTransaction();
            } else {
                producer.abortTransaction();
                consumer.seek(partition, order.offset());
            }
        }
        broker.assertRecords("invoices", KafkaRecord.of("order-1", "invoice for tea"));
        var all = broker.ask("GET", "/topics/invoices/records", null).getAsJsonArray("records");
        assertEquals(4, all.size()); // two attempts and the markers of their ends
    }

    @Test
    void anErrorThreeTimes() throws Exception {
        var refused = broker.addFault(Fault.error("NOT_ENOUGH_REPLICAS").api("Produce").topic("orders").times(3));
        send(producer(), "order-1", "tea");

        refused.waitFired(3, Duration.ofSeconds(5));
        broker.assertRecords("orders", KafkaRecord.of("order-1", "tea"));
    }

    @Test
    void aSlowBroker() throws Exception {
        var slow = broker.addFault(Fault.delay(Duration.ofMillis(300)).api("Produce").topic("orders"));
        long began = System.nanoTime();
        send(producer(), "order-1", "tea");

        slow.assertFired();
        assertTrue(System.nanoTime() - began >= 300_000_000);
    }

    @Test
    void theBrokerIsDownAndComesBack() throws Exception {
        var producer = producer();
        send(producer, "order-1", "tea");
        broker.killBroker(1);
        // In a thread of its own: if the client has noticed that no broker is there, send() itself waits for metadata.
        var sent = new FutureTask<>(() -> producer.send(new ProducerRecord<>("orders", "order-2", "salt")).get());
        new Thread(sent).start();
        assertThrows(TimeoutException.class, () -> sent.get(200, TimeUnit.MILLISECONDS));
        broker.startBroker(1);
        sent.get();
        broker.assertRecords("orders", KafkaRecord.ofValue("tea"), KafkaRecord.ofValue("salt"));
    }

    @Test
    @Wirebroker(topics = "orders:3", own = true, options = {
        "--acl", DENIAL,
        "--acl", "allow User:ANONYMOUS ALL TOPIC *",
        "--acl", "allow User:ANONYMOUS IDEMPOTENT_WRITE CLUSTER kafka-cluster",
    })
    void denied() throws Exception {
        var refused = assertThrows(ExecutionException.class, () -> send(producer(), "order-1", "tea"));
        assertInstanceOf(TopicAuthorizationException.class, refused.getCause());
        broker.assertRecords("orders");
        broker.ask("DELETE", "/acls?acl=" + URLEncoder.encode(DENIAL, StandardCharsets.UTF_8), null);
        send(producer(), "order-1", "tea");
    }

    @Test
    void recordsWithHeaders() throws Exception {
        var sent = new ProducerRecord<>("orders", "order-1", "{\"item\": \"tea\", \"grams\": 500}");
        sent.headers().add("trace", "abc-7".getBytes(StandardCharsets.UTF_8));
        producer().send(sent).get();

        var expected = KafkaRecord.of(regex("^order-[0-9]+$"), subset(Map.of("item", "tea")));
        broker.assertRecords("orders", expected.header("trace", "abc-7"));
        var stored = broker.records("orders").get(0);
        assertEquals("order-1", stored.key().text());
        assertEquals("trace", stored.headers().get(0).name());
        assertEquals("abc-7", stored.headers().get(0).value().text());
    }

    private static List<String> values(List<ConsumerRecord<String, String>> records) {
        return records.stream().map(ConsumerRecord::value).sorted().toList();
    }
}
