import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.IOException;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Reads messages with Kafka's own classes and writes them again, without tagged fields that Kafka does not know.
 *
 * A question is: kind ('q' request, 's' response, 'h' request header), key (int16), version (int16), size (int32), bytes.
 * A response is: bytes read (int32, -1 if Kafka refuses), size (int32), what Kafka writes, or why it refuses.
 */
public class KafkaOracle {
    public static void main(String[] arguments) throws IOException, ReflectiveOperationException {
        DataInputStream in = new DataInputStream(new BufferedInputStream(System.in, 1 << 16));
        DataOutputStream out = new DataOutputStream(new BufferedOutputStream(System.out, 1 << 16));
        for (int kind = in.read(); kind >= 0; kind = in.read()) {
            short key = in.readShort();
            short version = in.readShort();
            byte[] question = new byte[in.readInt()];
            in.readFully(question);
            ByteBuffer buffer = ByteBuffer.wrap(question);
            byte[] answer;
            int read = -1;
            try {
                ApiMessage message = empty(kind, key);
                message.read(new ByteBufferAccessor(buffer), version);
                read = buffer.position();
                forgetUnknownTags(message);
                answer = written(message, version);
            } catch (RuntimeException refused) {
                answer = refused.toString().getBytes(StandardCharsets.UTF_8);
            }
            out.writeInt(read);
            out.writeInt(answer.length);
            out.write(answer);
            if (in.available() == 0) {
                out.flush();
            }
        }
        out.flush();
    }

    private static ApiMessage empty(int kind, short key) {
        if (kind == 'h') {
            return new RequestHeaderData();
        }
        ApiMessageType type = ApiMessageType.fromApiKey(key);
        return kind == 'q' ? type.newRequest() : type.newResponse();
    }

    /** Kafka keeps tagged fields that it does not know and writes them again, at any depth. */
    private static void forgetUnknownTags(Message message) throws ReflectiveOperationException {
        message.unknownTaggedFields().clear();
        for (Field field : message.getClass().getDeclaredFields()) {
            if (Modifier.isStatic(field.getModifiers())) {
                continue;
            }
            field.setAccessible(true);
            Object held = field.get(message);
            if (held instanceof Message) {
                forgetUnknownTags((Message) held);
            } else if (held instanceof Iterable) {
                for (Object element : (Iterable<?>) held) {
                    if (element instanceof Message) {
                        forgetUnknownTags((Message) element);
                    }
                }
            }
        }
    }

    private static byte[] written(ApiMessage message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer out = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(out), cache, version);
        return out.array();
    }
}
