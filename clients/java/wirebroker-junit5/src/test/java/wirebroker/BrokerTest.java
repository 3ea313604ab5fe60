package wirebroker;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertLinesMatch;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.platform.engine.discovery.DiscoverySelectors.selectClass;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.reflect.Modifier;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;
import org.junit.platform.launcher.listeners.SummaryGeneratingListener;

@Wirebroker(topics = "orders:2")
class BrokerTest {
    private static final Map<Class<?>, Object> ARGUMENTS = Map.of(
        String.class, "kafka-4.4", int.class, 1, long.class, 4L, Duration.class, Duration.ofSeconds(1));

    @Test
    void everyKindOfFaultIsAccepted(Broker broker) throws Exception {
        for (var kind : Fault.class.getMethods()) {
            if (!Modifier.isStatic(kind.getModifiers())) continue;
            Object[] arguments = Arrays.stream(kind.getParameterTypes()).map(ARGUMENTS::get).toArray();
            if (kind.getName().equals("error")) arguments[0] = "NOT_LEADER_OR_FOLLOWER";
            if (kind.getName().equals("withdrawAcl")) arguments[0] = "allow User:alice WRITE TOPIC orders";
            broker.addFault(((Fault) kind.invoke(null, arguments)).nth(1000));
        }
        broker.addFault(Fault.loseAck().with("then", "silence"));
        broker.addFault(Fault.disconnect().after());
        broker.addFault(Fault.observe().api("Produce").topic("orders").partition(0).transactionalId("till").clientId("app")
            .principal("User:alice").node(1).every(1000).times(3));
        broker.addFault(Fault.observe().api("OffsetCommit").group("team").probability(0.5));
        refused("did you mean 'Produce'", () -> broker.addFault(Fault.observe().api("Prodce")));
    }

    @Test
    void aFaultIsWaitedFor(Broker broker) {
        var rule = broker.addFault(Fault.observe().api("Produce"));
        refused("did not fire at all", rule::assertFired);
        refused("fire", () -> rule.waitFired(1, Duration.ofMillis(10)));
    }

    @Test
    void recordsOfEveryForm(Broker broker) {
        var binary = new byte[] {0, (byte) 0xff};
        var rich = KafkaRecord.of("k", "v").partition(1)
            .header("text", "a").header("bytes", binary).header("json", KafkaRecord.json(7)).header("none", null)
            .header("nothing", KafkaRecord.json(null));
        broker.produce("orders", rich, KafkaRecord.ofValue(binary), 
            KafkaRecord.of(KafkaRecord.json(List.of(1)), null).timestamp(1_700_000_000_000L));
        broker.assertRecords("orders", rich, KafkaRecord.of(null, binary), KafkaRecord.of("[1]", null));
        broker.assertRecords("orders", KafkaRecord.of("k", KafkaRecord.regex("^v$")).partition(1),
            KafkaRecord.ofValue(binary), KafkaRecord.ofValue(null));
        var stored = broker.records("orders");
        assertNull(stored.get(0).key());
        assertArrayEquals(binary, stored.get(0).value().bytes());
        assertNull(stored.get(1).value());
        assertEquals(1_700_000_000_000L, stored.get(1).timestamp());
        var headers = stored.get(2).headers();
        assertEquals(List.of("a", "7"), List.of(headers.get(0).value().text(), headers.get(2).value().text()));
        assertNull(headers.get(3).value());
        assertEquals("null", headers.get(4).value().text());
        refused("the records of 'orders' differ", () -> broker.assertRecords("orders", rich, rich, rich));
    }

    @Test
    void aGivenBrokerIsTheSharedOne(Broker given) {
        given.produce("orders", KafkaRecord.ofValue("of an earlier test"));
        var environment = new HashMap<>(System.getenv());
        environment.putAll(Map.of("WIREBROKER_BOOTSTRAP", given.bootstrap(), "WIREBROKER_CONTROL", given.control()));
        try (var other = Broker.common(environment, "--brokers", "2")) { // a given broker cannot get options
            assertNotEquals(given.bootstrap(), other.bootstrap());
        }
        assertEquals(1, given.records("orders").size());
        try (var attached = Broker.common(environment)) {
            attached.reset("attached", "payments");
        }
        given.assertRecords("orders");
        given.ask("GET", "/topics/payments", null);
        fails("only one of them is set", () -> Broker.common(Map.of("WIREBROKER_CONTROL", given.control())));
    }

    @Test
    void aBrokerThatLacksAPathTellsItsVersion(Broker broker) {
        var error = assertThrows(AssertionError.class, () -> broker.ask("POST", "/of-a-later-release", null));
        assertLinesMatch(
            List.of("there is nothing at /of-a-later-release;.* is wirebroker [\\d.]+, .* to wirebroker [\\d.]+: if .*"),
            List.of(error.getMessage()));
    }

    @Test
    void aProgramThatDoesNotStartSaysWhy() {
        fails("'none' is not a whole number", () -> Broker.start("--brokers", "none"));
    }

    @Nested
    class Inside {
        @Test
        void aNestedClassSharesTheBroker(Broker broker) {
            assertSame(Broker.shared(), broker);
        }

        @Test
        @Wirebroker(own = true, topics = "payments")
        void aTestHasABrokerOfItsOwn(Broker broker) {
            assertNotEquals(Broker.shared().bootstrap(), broker.bootstrap());
            refused("there is no topic 'orders'", () -> broker.ask("GET", "/topics/orders", null));
        }
    }

    @Nested
    @Wirebroker(own = true)
    class AClassWithABrokerOfItsOwn {
        static Broker ofTheClass;

        @BeforeAll
        static void remember(Broker broker) {
            ofTheClass = broker;
        }

        @Test
        void itsTestsShareTheBroker(Broker broker) {
            assertSame(ofTheClass, broker);
        }

        @Test
        @Wirebroker(own = true)
        void aTestMayHaveAnother(Broker broker) {
            assertNotSame(ofTheClass, broker);
        }
    }

    @Test
    void aFailedTestShowsTheReportAndItsOwnBrokerEnds() {
        var printed = new ByteArrayOutputStream();
        var before = System.err;
        var summary = new SummaryGeneratingListener();
        System.setErr(new PrintStream(printed));
        try {
            var request = LauncherDiscoveryRequestBuilder.request().selectors(selectClass(Failing.class)).build();
            LauncherFactory.create().execute(request, summary);
        } finally {
            System.setErr(before);
        }
        assertEquals(2, summary.getSummary().getTestsFailedCount());
        assertTrue(printed.toString().contains("a pound of tea"), printed.toString());
        assertTrue(printed.toString().contains("a pound of salt"), printed.toString());
        assertThrows(Exception.class, Failing.own::report);
    }

    /** Surefire does not run this class, because its name does not end with Test. */
    @Wirebroker
    static class Failing {
        static Broker own;

        @Test
        void fails(Broker broker) {
            broker.produce("orders", KafkaRecord.ofValue("a pound of tea"));
            throw new AssertionError("on purpose");
        }

        @Test
        @Wirebroker(own = true)
        void failsWithABrokerOfItsOwn(Broker broker) {
            own = broker;
            broker.produce("orders", KafkaRecord.ofValue("a pound of salt"));
            throw new AssertionError("on purpose");
        }
    }

    private static void refused(String words, Executable call) {
        var error = assertThrows(AssertionError.class, call);
        assertTrue(error.getMessage().contains(words), error.getMessage());
    }

    private static void fails(String words, Executable call) {
        var error = assertThrows(IllegalStateException.class, call);
        assertTrue(error.getMessage().contains(words), error.getMessage());
    }
}
