// Reads records of __consumer_offsets with Kafka's own classes and writes them again: java -cp 'JARS/*' GroupRecords.java
// Each line on stdin is a record: key and value in hexadecimal, or "-" for none. Stdout gets the record's kind, or the error.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HexFormat;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;

public class GroupRecords {
    public static void main(String[] args) throws Exception {
        GroupCoordinatorRecordSerde serde = new GroupCoordinatorRecordSerde();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split(" ");
            byte[] key = HexFormat.of().parseHex(parts[0]);
            byte[] value = parts[1].equals("-") ? null : HexFormat.of().parseHex(parts[1]);
            var record = serde.deserialize(ByteBuffer.wrap(key), value == null ? null : ByteBuffer.wrap(value));
            boolean same = Arrays.equals(serde.serializeKey(record), key);
            same = same && (value == null || Arrays.equals(serde.serializeValue(record), value));
            System.out.println(same ? record.key().apiKey() : "differs: " + record);
        }
    }
}
