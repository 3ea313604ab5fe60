package wirebroker;

import java.util.Arrays;
import java.util.Base64;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A record to store or to expect. A key, a value or the value of a header is a text, a {@code byte[]}, null, or a result of
 * {@link #json}, {@link #subset} or {@link #regex}. In {@link Broker#assertRecords} a part that is not given matches anything.
 */
public final class KafkaRecord {
    private final Map<String, Object> parts = new LinkedHashMap<>();
    private final Map<String, Object> headers = new LinkedHashMap<>();

    /** A record with this key, which may be null, and this value, which is null for a tombstone. */
    public static KafkaRecord of(Object key, Object value) {
        return ofValue(value).with("key", data(key));
    }

    /** A record with this value. */
    public static KafkaRecord ofValue(Object value) {
        return new KafkaRecord().with("value", data(value));
    }

    public KafkaRecord header(String name, Object value) {
        headers.put(name, data(value));
        return with("headers", headers);
    }

    public KafkaRecord partition(int partition) {
        return with("partition", partition);
    }

    /** The timestamp of a record to store, in ms since the epoch. */
    public KafkaRecord timestamp(long timestamp) {
        return with("timestamp", timestamp);
    }

    private KafkaRecord with(String part, Object value) {
        parts.put(part, value);
        return this;
    }

    static List<Map<String, Object>> parts(KafkaRecord... records) {
        return Arrays.stream(records).map(record -> record.parts).toList();
    }

    /** A value as JSON. */
    public static Object json(Object value) {
        return Collections.singletonMap("json", value); // the value may be null
    }

    /** Expects JSON with at least these fields. */
    public static Object subset(Map<String, ?> fields) {
        return Map.of("json_subset", fields);
    }

    /** Expects a text in which the pattern matches. The pattern has the syntax of RE2. */
    public static Object regex(String pattern) {
        return Map.of("regex", pattern);
    }

    private static Object data(Object value) {
        return value instanceof byte[] bytes ? Map.of("base64", Base64.getEncoder().encodeToString(bytes)) : value;
    }
}
