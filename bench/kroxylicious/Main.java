import io.kroxylicious.proxy.KafkaProxy;
import io.kroxylicious.proxy.config.ConfigParser;
import io.kroxylicious.proxy.internal.config.Features;
import java.net.ServerSocket;

/** Starts Kroxylicious without filters in front of a broker, because Kroxylicious' own start script is not on Maven Central. */
public class Main {
    public static void main(String[] arguments) throws Exception {
        int port;
        try (ServerSocket probe = new ServerSocket(0)) {
            port = probe.getLocalPort();
        }
        String settings = """
                virtualClusters:
                  - name: bench
                    targetCluster:
                      bootstrapServers: %s
                    gateways:
                      - name: default
                        portIdentifiesNode:
                          bootstrapAddress: 127.0.0.1:%d
                """.formatted(arguments[0], port);
        ConfigParser parser = new ConfigParser();
        try (KafkaProxy proxy = new KafkaProxy(parser, parser.parseConfiguration(settings), Features.defaultFeatures()).startup()) {
            System.out.println("listening on 127.0.0.1:" + port + "\nready");
            proxy.block();
        }
    }
}
