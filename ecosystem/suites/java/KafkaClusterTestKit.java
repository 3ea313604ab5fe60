package org.apache.kafka.common.test;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import kafka.server.BrokerServer;
import org.apache.kafka.metadata.BrokerState;
import org.mockito.Mockito;

/** Replaces the class with which Kafka Streams' tests start brokers. Starts the command in the property `serve`. */
public final class KafkaClusterTestKit implements AutoCloseable {
    private final int nodes;
    private final List<String> command;
    private Process process;
    private String bootstrap;

    private KafkaClusterTestKit(int nodes, List<String> command) {
        this.nodes = nodes;
        this.command = command;
    }

    /** The settings of the brokers. */
    public static final class Builder {
        private final int nodes;
        private final Map<String, Object> settings = new LinkedHashMap<>(Map.of("node.id", 0)); // the tests count nodes from 0

        public Builder(TestKitNodes nodes) {
            this.nodes = nodes.brokerNodes().size();
        }

        public Builder setConfigProp(String name, Object value) {
            settings.put(name, value);
            return this;
        }

        public KafkaClusterTestKit build() {
            var command = new ArrayList<>(List.of(System.getProperty("serve").split("\n")));
            command.addAll(List.of("--port", "0", "--brokers", String.valueOf(nodes)));
            settings.forEach((name, value) -> command.addAll(List.of("--config", name + "=" + value)));
            return new KafkaClusterTestKit(nodes, command);
        }
    }

    public void format() {}

    /** Starts the brokers, and returns when they are ready. */
    public void startup() throws IOException {
        process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        Runtime.getRuntime().addShutdownHook(new Thread(process::destroyForcibly));
        var lines = new BufferedReader(new InputStreamReader(process.getInputStream()));
        var found = new ArrayList<String>();
        for (String line = lines.readLine(); !"ready".equals(line); line = lines.readLine()) {
            if (line == null) {
                throw new IOException("the broker ended before it was ready: " + command);
            }
            if (line.startsWith("listening on ")) {
                found.add(line.split(" ")[2]);
            }
        }
        bootstrap = String.join(",", found);
        var rest = new Thread(() -> lines.lines().forEach(line -> {}));
        rest.setDaemon(true);
        rest.start();
    }

    public void waitForReadyBrokers() {}

    public MockFaultHandler nonFatalFaultHandler() {
        return new MockFaultHandler("brokers elsewhere");
    }

    public String bootstrapServers() {
        return bootstrap;
    }

    /** For each broker, an object that can only report that the broker runs. */
    public Map<Integer, BrokerServer> brokers() {
        var brokers = new LinkedHashMap<Integer, BrokerServer>();
        for (int id = 0; id < nodes; id++) {
            brokers.put(id, Mockito.mock(BrokerServer.class, call -> {
                if (call.getMethod().getName().equals("brokerState")) {
                    return BrokerState.RUNNING;
                }
                throw new UnsupportedOperationException(call.getMethod() + " of a broker in another process");
            }));
        }
        return brokers;
    }

    @Override
    public void close() {
        if (process != null) {
            process.destroyForcibly();
        }
    }
}
