import java.util.List;
import java.util.Map;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsReporter;
import org.apache.kafka.server.telemetry.ClientTelemetry;
import org.apache.kafka.server.telemetry.ClientTelemetryReceiver;

/** Makes a Kafka accept what clients push (KIP-714): a broker without such a plugin does not offer the requests. */
public class TelemetryReceiver implements MetricsReporter, ClientTelemetry {
    @Override public ClientTelemetryReceiver clientReceiver() { return (context, payload) -> payload.data(); }
    @Override public void configure(Map<String, ?> configs) { }
    @Override public void init(List<KafkaMetric> metrics) { }
    @Override public void metricChange(KafkaMetric metric) { }
    @Override public void metricRemoval(KafkaMetric metric) { }
    @Override public void close() { }
}
