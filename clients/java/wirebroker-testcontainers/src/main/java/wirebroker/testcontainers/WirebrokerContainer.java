package wirebroker.testcontainers;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.ServerSocket;
import java.util.ArrayList;
import java.util.List;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.wait.strategy.Wait;
import org.testcontainers.utility.DockerImageName;
import wirebroker.Broker;

/** A broker in a container. This class has not been tried with Docker yet. */
public class WirebrokerContainer extends GenericContainer<WirebrokerContainer> {
    private static final int KAFKA = 9092;
    private static final int CONTROL = 9099;

    private final int port = free();

    /** A broker of this image, which the repository's Dockerfile makes, with these flags of {@code wirebroker serve}. */
    public WirebrokerContainer(DockerImageName image, String... options) {
        super(image);
        addFixedExposedPort(port, KAFKA); // clients connect to the port that the broker tells them, so it is chosen first
        addExposedPort(CONTROL);
        var flags = new ArrayList<>(List.of("--advertise", getHost() + ":" + port));
        flags.addAll(List.of("--control", "0.0.0.0:" + CONTROL, "--control-allow-host", getHost()));
        flags.addAll(List.of(options));
        setCommand(flags.toArray(String[]::new));
        waitingFor(Wait.forHttp("/health").forPort(CONTROL));
    }

    /** The running broker. */
    public Broker broker() {
        return Broker.attach(getHost() + ":" + port, "http://" + getHost() + ":" + getMappedPort(CONTROL));
    }

    private static int free() {
        try (var socket = new ServerSocket(0)) {
            return socket.getLocalPort();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
