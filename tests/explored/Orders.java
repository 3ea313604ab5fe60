import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Sends orders, or writes an invoice for each: "send" and "transactions" are right, the others have a bug each. */
public class Orders {
    static final String BOOTSTRAP = System.getenv("WIREBROKER_BOOTSTRAP");
    static final int ORDERS = 4;

    public static void main(String[] words) throws Exception {
        switch (words[0]) {
            case "send" -> send(Map.of());
            case "not-idempotent" -> send(Map.of("enable.idempotence", false, "batch.size", 0));
            case "left-open" -> leftOpen();
            case "transactions" -> invoices(true);
            case "commit-outside" -> invoices(false);
            case "auto-commit" -> autoCommit();
        }
    }

    static KafkaProducer<String, String> producer(Map<String, Object> more) {
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", BOOTSTRAP, "linger.ms", 0,
            "request.timeout.ms", 1000, "delivery.timeout.ms", 4000, "max.block.ms", 4000, "retry.backoff.ms", 10));
        settings.putAll(more);
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    static KafkaConsumer<String, String> consumer(Map<String, Object> more) {
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", BOOTSTRAP, "group.id", "billing",
            "auto.offset.reset", "earliest", "enable.auto.commit", false, "isolation.level", "read_committed",
            "request.timeout.ms", 1000, "default.api.timeout.ms", 4000, "retry.backoff.ms", 10));
        settings.putAll(more);
        var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of("orders"));
        return consumer;
    }

    static ProducerRecord<String, String> invoice(ConsumerRecord<String, String> order) {
        return new ProducerRecord<>("invoices", order.key(), "invoice of " + order.value());
    }

    /** Sends six orders of one customer, and looks at each result. */
    static void send(Map<String, Object> settings) throws Exception {
        List<Future<RecordMetadata>> results = new ArrayList<>();
        try (var producer = producer(settings)) {
            for (int number = 0; number < 6; number++)
                results.add(producer.send(new ProducerRecord<>("orders", "customer", "order-" + number)));
        }
        for (var result : results) result.get();
    }

    /** Logs what goes wrong in a transaction, and does not abort it. */
    static void leftOpen() {
        var producer = producer(Map.of("transactional.id", "till"));
        producer.initTransactions();
        for (int number = 0; number < 2; number++) {
            try {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>("orders", "customer", "order-" + number)).get();
                producer.send(new ProducerRecord<>("audit", "customer", "order-" + number)).get();
                producer.commitTransaction();
            } catch (Exception wrong) {
                System.err.println(wrong);
                System.exit(0);
            }
        }
        producer.close();
    }

    /** Writes an invoice for each order in a transaction, with the order's offset in it, or committed after it. */
    static void invoices(boolean withOffsets) {
        for (int done = 0; done < ORDERS; ) {
            try (var producer = producer(Map.of("transactional.id", "billing")); var consumer = consumer(Map.of())) {
                producer.initTransactions();
                while (done < ORDERS) {
                    for (var order : consumer.poll(Duration.ofMillis(100))) {
                        var where = Map.of(new TopicPartition("orders", 0), new OffsetAndMetadata(order.offset() + 1));
                        producer.beginTransaction();
                        producer.send(invoice(order));
                        if (withOffsets) producer.sendOffsetsToTransaction(where, consumer.groupMetadata());
                        producer.commitTransaction();
                        if (!withOffsets) consumer.commitSync(where);
                        done = (int) order.offset() + 1;
                    }
                }
            } catch (AuthorizationException | UnsupportedVersionException fatal) {
                throw fatal;
            } catch (KafkaException wrong) {
                System.err.println(wrong); // the producer's end aborts the transaction, and both begin again
            }
        }
    }

    /** Reads with automatic commits, which do not wait for the invoices. */
    static void autoCommit() {
        try (var producer = producer(Map.of("retries", 0)); var consumer = consumer(Map.of("enable.auto.commit", true))) {
            for (int done = 0; done < ORDERS; ) {
                for (var order : consumer.poll(Duration.ofMillis(100))) {
                    producer.send(invoice(order), (stored, wrong) -> {
                        if (wrong != null) System.err.println("no invoice for " + order.value() + ": " + wrong);
                    });
                    done++;
                }
            }
        }
    }
}
