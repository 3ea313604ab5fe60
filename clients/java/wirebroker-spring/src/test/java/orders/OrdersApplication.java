package orders;

import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.core.KafkaTemplate;

/** A service that writes an invoice for each order. */
@SpringBootApplication
class OrdersApplication {
    static int started;

    private final KafkaTemplate<String, String> invoices;

    OrdersApplication(KafkaTemplate<String, String> invoices) {
        this.invoices = invoices;
        started += 1;
    }

    @KafkaListener(topics = "orders", groupId = "billing", properties = "auto.offset.reset=earliest")
    void order(String order) throws Exception {
        invoices.send("invoices", "invoice for " + order).get();
    }
}
