package orders;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import org.junit.jupiter.api.Test;
import wirebroker.Broker;
import wirebroker.Fault;
import wirebroker.KafkaRecord;
import wirebroker.Wirebroker;

@Wirebroker(topics = "orders:3")
class OrdersTest {
    @Test
    void aLostAcknowledgementDoublesNothing(Broker broker) throws Exception {
        var lost = broker.addFault(Fault.loseAck().api("Produce").topic("orders").nth(1));

        Orders.send(broker.bootstrap(), "order-1", "a pound of tea");

        lost.assertFired();
        assertEquals(List.of("accepted", "duplicate"), broker.verdicts("orders"));
        broker.assertRecords("orders", KafkaRecord.of("order-1", "a pound of tea"));
    }
}
