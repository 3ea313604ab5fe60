import java.util.Map;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.kafka.annotation.EnableKafka;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.config.ConcurrentKafkaListenerContainerFactory;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaTemplate;

/** A Spring service that keeps running while its broker is reset: SpringService BOOTSTRAP. It produces a result for each order. */
@Configuration
@EnableKafka
public class SpringService {
    static String bootstrap;

    public static void main(String[] words) throws Exception {
        bootstrap = words[0];
        new AnnotationConfigApplicationContext(SpringService.class);
        Thread.currentThread().join();
    }

    @Bean
    public ConcurrentKafkaListenerContainerFactory<String, String> kafkaListenerContainerFactory() {
        var factory = new ConcurrentKafkaListenerContainerFactory<String, String>();
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "auto.offset.reset", "earliest");
        factory.setConsumerFactory(new DefaultKafkaConsumerFactory<>(settings, new StringDeserializer(), new StringDeserializer()));
        return factory;
    }

    @Bean
    public KafkaTemplate<String, String> template() {
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap);
        return new KafkaTemplate<>(new DefaultKafkaProducerFactory<>(settings, new StringSerializer(), new StringSerializer()));
    }

    @Bean
    public Listener listener(KafkaTemplate<String, String> template) {
        return new Listener(template);
    }

    public static class Listener {
        private final KafkaTemplate<String, String> template;

        Listener(KafkaTemplate<String, String> template) {
            this.template = template;
        }

        @KafkaListener(topics = "orders", groupId = "service")
        public void answer(String order) throws Exception {
            template.send("results", order).get();
        }
    }
}
