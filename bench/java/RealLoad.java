import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** A real load with the Java client; see realLoad in go/franzgen. Arguments: mode, address, topic, file, codec, count. */
public class RealLoad {
    record Line(byte[] key, List<Header> headers, byte[] value) {}

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[2];
        int count = Integer.parseInt(arguments[5]);
        List<Line> lines = new ArrayList<>();
        for (String line : Files.readAllLines(Path.of(arguments[3]))) {
            String[] parts = line.split("\t", 3);
            List<Header> headers = parts[1].isEmpty() ? List.of() : List.of(new RecordHeader("trace", parts[1].getBytes()));
            lines.add(new Line(parts[0].getBytes(), headers, parts[2].getBytes()));
        }
        System.out.println("ready");
        System.in.read();
        if (arguments[0].equals("produce")) {
            produce(arguments[1], topic, lines, arguments[4], count);
        } else {
            consume(arguments[1], topic, count);
        }
        System.out.println("done");
    }

    static void produce(String address, String topic, List<Line> lines, String codec, int count) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", address, "compression.type", codec);
        AtomicReference<Exception> failure = new AtomicReference<>();
        try (var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (int i = 0; i < count; i++) {
                Line line = lines.get(i % lines.size());
                producer.send(new ProducerRecord<>(topic, null, line.key, line.value, line.headers), (sent, error) -> {
                    if (error != null) failure.set(error);
                });
            }
            producer.flush();
        }
        if (failure.get() != null) throw failure.get();
    }

    static void consume(String address, String topic, int count) {
        Map<String, Object> settings = Map.of("bootstrap.servers", address, "auto.offset.reset", "earliest");
        try (var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            consumer.seekToBeginning(consumer.assignment());
            for (int got = 0; got < count; ) {
                got += consumer.poll(Duration.ofSeconds(10)).count();
            }
        }
    }
}
