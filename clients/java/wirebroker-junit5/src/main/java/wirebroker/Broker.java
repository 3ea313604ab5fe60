package wirebroker;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Files;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.extension.ExtensionContext;

/** A running broker. If the broker refuses a call, the call throws an AssertionError with the reason. */
@SuppressWarnings("deprecation") // JUnit before 5.13 closes only a CloseableResource
public final class Broker implements AutoCloseable, ExtensionContext.Store.CloseableResource {
    static final Gson JSON = new GsonBuilder().serializeNulls().create();
    private static final HttpClient HTTP = HttpClient.newHttpClient();
    private static final Map<List<String>, Broker> SHARED = new HashMap<>();

    private final String bootstrap;
    private final String control;
    private final Process process; // null if another program has started the broker

    private Broker(String bootstrap, String control, Process process) {
        this.bootstrap = bootstrap;
        this.control = control;
        this.process = process;
    }

    /**
     * The broker with these flags of {@code wirebroker serve} that all tests of this JVM share. It ends with the JVM. Without flags
     * it is the running broker that the environment names, if there is one.
     */
    public static synchronized Broker shared(String... options) {
        return SHARED.computeIfAbsent(List.of(options), key -> common(System.getenv(), options));
    }

    /** Starts a broker of its own with these flags of {@code wirebroker serve}. */
    public static Broker start(String... options) {
        return start(System.getenv(), options);
    }

    /** A broker that runs already, at the address for clients and the address of its control. */
    public static Broker attach(String bootstrap, String control) {
        return new Broker(bootstrap, control, null);
    }

    /** Attaches to the broker that the environment names. Starts a broker if it names none, or if there are options. */
    static Broker common(Map<String, String> environment, String... options) {
        String bootstrap = environment.getOrDefault("WIREBROKER_BOOTSTRAP", "");
        String control = environment.getOrDefault("WIREBROKER_CONTROL", "");
        if (bootstrap.isEmpty() != control.isEmpty()) {
            throw new IllegalStateException(
                "WIREBROKER_BOOTSTRAP and WIREBROKER_CONTROL name a running broker together; only one of them is set");
        }
        return bootstrap.isEmpty() || options.length > 0 ? start(environment, options) : attach(bootstrap, control);
    }

    private static Broker start(Map<String, String> environment, String... options) {
        var command = new ArrayList<>(List.of(Program.find(environment)));
        command.addAll(List.of("serve", "--port", "0", "--control", "0", "--ready", "json", "--exit-with-parent"));
        command.addAll(Arrays.asList(options));
        try {
            var messages = Files.createTempFile("wirebroker-", ".log");
            messages.toFile().deleteOnExit();
            var process = new ProcessBuilder(command).redirectError(messages.toFile()).start();
            String line = process.inputReader().readLine(); // its standard input, a pipe, tells it that the JVM has ended
            if (line == null) {
                throw new IllegalStateException(String.join(" ", command) + " did not start: " + Files.readString(messages));
            }
            var ready = JSON.fromJson(line, JsonObject.class);
            return new Broker(ready.get("bootstrap").getAsString(), ready.get("control").getAsString(), process);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** Ends a broker of {@link #start}. If this method is not called, the broker ends with the JVM. */
    @Override
    public void close() {
        if (process == null) return;
        process.destroy();
        process.onExit().join();
    }

    /** The address for clients. */
    public String bootstrap() {
        return bootstrap;
    }

    /** The address of the HTTP control. */
    public String control() {
        return control;
    }

    /** Calls an endpoint of the control. The body may be null; otherwise Gson writes it as JSON. */
    public JsonObject ask(String method, String path, Object body) {
        var payload = body == null ? BodyPublishers.noBody() : BodyPublishers.ofString(JSON.toJson(body));
        var request = HttpRequest.newBuilder(URI.create(control + path)).header("Accept", "application/json");
        try {
            var response = HTTP.send(request.method(method, payload).build(), BodyHandlers.ofString());
            var result = JSON.fromJson(response.body(), JsonObject.class);
            if (response.statusCode() < 400) return result;
            String problem = result.get("detail").getAsString();
            throw new AssertionError(problem + age(problem));
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(error);
        }
    }

    /** If the broker lacks a path, names the versions of the broker and the library: an older broker has fewer paths. */
    private String age(String problem) {
        if (!problem.startsWith("there is nothing at ")) return "";
        var info = ask("GET", "/openapi.json", null).getAsJsonObject("info");
        return "; the broker is wirebroker " + info.get("version").getAsString() + ", and this library belongs to wirebroker "
            + Program.Release.PINNED.version() + ": if the broker is older, install the library's version, "
            + "or set WIREBROKER to its program";
    }

    /** Returns the broker's report as text: what happened since the test began. */
    public String report() {
        return ask("GET", "/report", null).get("text").getAsString();
    }

    /** Empties the broker, whose clients stay connected, and makes sure that it has the topics. */
    public void reset(String test, String... topics) {
        ask("POST", "/tests", Map.of("name", test, "topics", topics));
    }

    /** Loads a fault, which applies from the next request on and until the next test. */
    public Rule addFault(Fault fault) {
        return new Rule(ask("POST", "/faults", fault.words).get("id").getAsInt());
    }

    /** A fault that the broker has loaded. */
    public final class Rule {
        private final String path;

        private Rule(int id) {
            path = "/faults/" + id;
        }

        /** Waits until the fault has fired this many times. */
        public void waitFired(int times, Duration timeout) {
            ask("GET", path + "/wait?times=" + times + "&timeout=" + timeout.toMillis() / 1000.0, null);
        }

        /** Fails if the fault has not fired. */
        public void assertFired() {
            ask("GET", path + "/assert-fired", null);
        }
    }

    /** Stores records without a client. A record without a partition goes to partition 0. */
    public void produce(String topic, KafkaRecord... records) {
        ask("POST", "/topics/" + topic + "/records", Map.of("records", KafkaRecord.parts(records)));
    }

    /** Returns the committed records of a topic, in the order of partition and offset. */
    public List<StoredRecord> records(String topic) {
        var records = new ArrayList<StoredRecord>();
        record Page(List<StoredRecord> records, String next) {}
        for (String next = "/topics/" + topic + "/records?committed=true"; next != null; ) {
            var page = JSON.fromJson(ask("GET", next, null), Page.class);
            records.addAll(page.records);
            next = page.next;
        }
        return records;
    }

    /** Waits until the topic has as many committed records as expected, and compares them, in any order. */
    public void assertRecords(String topic, KafkaRecord... expected) {
        var wanted = Map.of("records", KafkaRecord.parts(expected), "in_order", false);
        ask("POST", "/topics/" + topic + "/records/assert", wanted);
    }

    /** Returns the broker's verdict on each produced batch of a topic: "accepted", "duplicate" or "rejected". */
    public List<String> verdicts(String topic) {
        var rows = ask("GET", "/verdicts?topic=" + topic, null).getAsJsonArray("verdicts").asList();
        return rows.stream().map(JsonElement::getAsJsonObject).map(row -> row.get("verdict").getAsString()).toList();
    }

    /** Stops a broker as kill -9 does, until {@link #startBroker}. A single broker has the node id 1. */
    public void killBroker(int node) {
        ask("POST", "/brokers/" + node + "/kill", null);
    }

    /** Starts a broker that {@link #killBroker} stopped. */
    public void startBroker(int node) {
        ask("POST", "/brokers/" + node + "/start", null);
    }

    /** Moves the broker's clock: sessions and transactions time out, records and offsets expire. */
    public void advance(Duration by) {
        ask("POST", "/clock/advance", Map.of("milliseconds", by.toMillis()));
    }
}
