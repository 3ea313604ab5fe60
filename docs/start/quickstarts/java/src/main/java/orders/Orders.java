package orders;

import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** The code under test. */
public class Orders {
    public static void send(String bootstrap, String id, String order) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "enable.idempotence", true);
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>("orders", id, order)).get();
        }
    }

    /** The program that `wirebroker explore` runs. */
    public static void main(String[] words) throws Exception {
        send(System.getenv("BOOTSTRAP_SERVERS"), "order-1", "a pound of tea");
    }
}
