package wirebroker;

import java.util.Base64;
import java.util.List;

/** A record as the broker stores it. The key and the value may be null; the timestamp is in ms since the epoch. */
public record StoredRecord(
        String topic, int partition, long offset, long timestamp, Data key, Data value, List<Header> headers) {
    /** A header; its value may be null. */
    public record Header(String name, Data value) {}

    /** A key, a value or a header's value. */
    public record Data(String text, String base64) {
        public byte[] bytes() {
            return Base64.getDecoder().decode(base64);
        }
    }
}
