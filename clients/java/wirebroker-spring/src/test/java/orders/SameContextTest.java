package orders;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;
import org.springframework.boot.test.context.SpringBootTest;
import wirebroker.Broker;
import wirebroker.KafkaRecord;
import wirebroker.Wirebroker;

/** Shares its context and service with {@link OrdersTest}. */
@SpringBootTest
@Wirebroker(topics = {"orders:3", "invoices:3"})
class SameContextTest {
    @Test
    void theServiceLivesOn(Broker broker) {
        broker.produce("orders", KafkaRecord.ofValue("rice"));
        broker.assertRecords("invoices", KafkaRecord.ofValue("invoice for rice"));
        assertEquals(1, OrdersApplication.started);
    }
}
