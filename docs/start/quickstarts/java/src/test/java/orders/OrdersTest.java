package orders;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

class OrdersTest {
    @RegisterExtension
    static final Wirebroker broker = new Wirebroker("--topic", "orders:3");

    @Test
    void aLostAcknowledgementDoublesNothing() throws Exception {
        var lost = broker.ask("POST", "/faults", """
            {"kind": "lose_ack", "api": "Produce", "topic": "orders", "nth": 1}""");

        Orders.send(broker.bootstrap(), "order-1", "a pound of tea");

        broker.ask("GET", "/faults/" + lost.get("id") + "/assert-fired", "");
        var verdicts = broker.ask("GET", "/verdicts?topic=orders", "").findValuesAsText("verdict");
        assertEquals(List.of("accepted", "duplicate"), verdicts);
        var audit = broker.ask("POST", "/audit", """
            {"intended": [{"topic": "orders", "key": "order-1", "value": "a pound of tea"}]}""");
        assertEquals(List.of(), audit.findValuesAsText("explanation"));
    }
}
