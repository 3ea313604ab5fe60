package orders;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.extension.AfterAllCallback;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;

/** A broker on free ports for the tests of a class. It is emptied before each, and a service that is connected lives on. */
public class Wirebroker implements BeforeAllCallback, BeforeEachCallback, AfterAllCallback {
    private static final ObjectMapper JSON = new ObjectMapper();
    private final HttpClient http = HttpClient.newHttpClient();
    private final List<String> command = new ArrayList<>();
    private Process process;
    private int depth;
    private String bootstrap;
    private String control;

    public Wirebroker(String... options) {
        String program = System.getenv().getOrDefault("WIREBROKER", "wirebroker");
        command.addAll(List.of(program, "serve", "--port", "0", "--control", "0", "--exit-with-parent"));
        command.addAll(List.of(options));
    }

    @Override
    public void beforeAll(ExtensionContext context) throws Exception {
        depth += 1;
        if (depth > 1) return; // a nested class uses the broker of the class around it
        process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        var lines = process.inputReader();
        for (String line = lines.readLine(); !"ready".equals(line); line = lines.readLine()) {
            if (line == null) throw new IllegalStateException("wirebroker did not start");
            if (line.startsWith("listening on ")) bootstrap = line.split(" ")[2];
            if (line.startsWith("control on ")) control = line.split(" ")[2];
        }
    }

    @Override
    public void beforeEach(ExtensionContext context) throws Exception {
        ask("POST", "/reset", """
            {"soft": true}""");
    }

    @Override
    public void afterAll(ExtensionContext context) {
        depth -= 1;
        if (depth == 0 && process != null) process.destroy();
    }

    public String bootstrap() {
        return bootstrap;
    }

    /** Calls the control. An error of the control fails the test. */
    public JsonNode ask(String method, String path, String body) throws Exception {
        var request = HttpRequest.newBuilder(URI.create(control + path)).method(method, BodyPublishers.ofString(body));
        var answer = http.send(request.build(), BodyHandlers.ofString());
        var result = JSON.readTree(answer.body());
        if (answer.statusCode() >= 400) throw new AssertionError(result.get("detail").asText());
        return result;
    }
}
