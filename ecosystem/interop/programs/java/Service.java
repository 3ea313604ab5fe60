import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** A service that keeps running when its broker is reset: Service BOOTSTRAP. It produces a result for each order, and commits. */
public class Service {
    public static void main(String[] words) throws Exception {
        Map<String, Object> reads = Map.of("bootstrap.servers", words[0], "group.id", "service", "enable.auto.commit", false,
            "auto.offset.reset", "earliest", "group.protocol", "consumer");
        Map<String, Object> writes = Map.of("bootstrap.servers", words[0], "linger.ms", 0);
        var consumer = new KafkaConsumer<>(reads, new StringDeserializer(), new StringDeserializer());
        var producer = new KafkaProducer<>(writes, new StringSerializer(), new StringSerializer());
        consumer.subscribe(List.of("orders"));
        while (true) {
            for (var order : consumer.poll(Duration.ofSeconds(1))) {
                producer.send(new ProducerRecord<>("results", order.value())).get();
                consumer.commitSync();
            }
        }
    }
}
