import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Consumes NAME.in, produces NAME.out and commits in transactions, exactly once: Transform BOOTSTRAP NAME INSTANCE. Outputs have
 * the keys and values of their inputs. Ends with code 1 after an error from which only a new producer recovers.
 */
public class Transform {
    static volatile boolean stopped;

    public static void main(String[] words) throws Exception {
        String name = words[1];
        Map<String, Object> reads = Map.of("bootstrap.servers", words[0], "group.id", name, "enable.auto.commit", false,
            "auto.offset.reset", "earliest", "isolation.level", "read_committed", "group.protocol", "consumer");
        Map<String, Object> writes = Map.of("bootstrap.servers", words[0], "transactional.id", name + "-" + words[2],
            "transaction.timeout.ms", 15_000);
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            stopped = true;
            try {
                main.join(20_000);
            } catch (InterruptedException ignored) {
            }
        }));
        try (var consumer = new KafkaConsumer<>(reads, new StringDeserializer(), new StringDeserializer());
                var producer = new KafkaProducer<>(writes, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            consumer.subscribe(List.of(name + ".in"));
            while (!stopped) {
                try {
                    transform(consumer, producer, name);
                } catch (KafkaException failed) {
                    System.err.println("aborts: " + failed);
                    producer.abortTransaction();
                    rewind(consumer);
                }
                Thread.sleep(250);  // so that a transaction has more than one record
            }
        } catch (KafkaException fatal) {
            System.err.println("ends: " + fatal);
            Runtime.getRuntime().halt(1);
        }
    }

    static void transform(KafkaConsumer<String, String> consumer, KafkaProducer<String, String> producer, String name) {
        var records = consumer.poll(Duration.ofSeconds(1));
        if (records.isEmpty()) return;
        producer.beginTransaction();
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (var record : records) {
            producer.send(new ProducerRecord<>(name + ".out", record.key(), record.value()));
            offsets.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
        }
        producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
        while (true) {
            try {
                producer.commitTransaction();
                return;
            } catch (TimeoutException late) {  // the commit may have been sent, so the next call must be a commit, too
                System.err.println("commits again: " + late);
            }
        }
    }

    static void rewind(KafkaConsumer<String, String> consumer) {
        var committed = consumer.committed(consumer.assignment());
        for (var partition : consumer.assignment()) {
            var offset = committed.get(partition);
            if (offset != null) consumer.seek(partition, offset.offset());
            else consumer.seekToBeginning(List.of(partition));
        }
    }
}
