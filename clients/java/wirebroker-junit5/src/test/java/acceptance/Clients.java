package acceptance;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.AfterEach;
import wirebroker.Broker;

/** The clients of a test. They are closed after the test. */
class Clients {
    final Broker broker;
    private final List<AutoCloseable> open = new ArrayList<>();

    Clients(Broker broker) {
        this.broker = broker;
    }

    @AfterEach
    void close() throws Exception {
        for (AutoCloseable client : open) client.close();
    }

    private Map<String, Object> settings(String... more) {
        var settings = new HashMap<String, Object>(Map.of("bootstrap.servers", broker.bootstrap()));
        for (int i = 0; i < more.length; i += 2) settings.put(more[i], more[i + 1]);
        return settings;
    }

    KafkaProducer<String, String> producer(String... more) {
        var made = new KafkaProducer<>(settings(more), new StringSerializer(), new StringSerializer());
        open.add(made);
        return made;
    }

    /** A consumer of the topic orders in this group, which commits nothing on its own. */
    KafkaConsumer<String, String> member(String group, String... more) {
        var settings = settings(more);
        settings.putAll(Map.of(
            "group.id", group, "enable.auto.commit", "false", "auto.offset.reset", "earliest",
            "isolation.level", "read_committed", "heartbeat.interval.ms", "100",
            "partition.assignment.strategy", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"));
        var made = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        open.add(made);
        made.subscribe(List.of("orders"));
        return made;
    }

    static void send(KafkaProducer<String, String> producer, String id, String what) throws Exception {
        producer.send(new ProducerRecord<>("orders", id, what)).get();
    }

    static List<ConsumerRecord<String, String>> poll(KafkaConsumer<String, String> consumer, int count) {
        var records = new ArrayList<ConsumerRecord<String, String>>();
        until(() -> {
            consumer.poll(Duration.ofMillis(100)).forEach(records::add);
            return records.size() >= count;
        });
        return records;
    }

    static KafkaConsumer<String, String> polled(KafkaConsumer<String, String> consumer) {
        consumer.poll(Duration.ofMillis(50));
        return consumer;
    }

    static void until(BooleanSupplier holds) {
        long end = System.nanoTime() + 20_000_000_000L;
        while (!holds.getAsBoolean()) assertTrue(System.nanoTime() < end, "waited 20 s in vain");
    }
}
