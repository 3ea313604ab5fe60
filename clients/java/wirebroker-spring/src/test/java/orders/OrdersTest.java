package orders;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;

import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.test.context.SpringBootTest;
import org.springframework.kafka.core.KafkaTemplate;
import wirebroker.Broker;
import wirebroker.Fault;
import wirebroker.KafkaRecord;
import wirebroker.Wirebroker;

@SpringBootTest
@Wirebroker(topics = {"orders:3", "invoices:3"})
class OrdersTest {
    @Autowired
    KafkaTemplate<String, String> orders;

    @Test
    void anOrderHasAnInvoice(Broker broker, @Autowired Broker bean) throws Exception {
        orders.send("orders", "tea").get();
        broker.assertRecords("invoices", KafkaRecord.ofValue("invoice for tea"));
        assertSame(broker, bean);
    }

    @Test
    void aLostAcknowledgementDoublesNothing(Broker broker) throws Exception {
        var lost = broker.addFault(Fault.loseAck().api("Produce").topic("invoices").nth(1));
        orders.send("orders", "salt").get();
        broker.assertRecords("invoices", KafkaRecord.ofValue("invoice for salt"));
        lost.assertFired();
        assertEquals(1, OrdersApplication.started);
    }
}
