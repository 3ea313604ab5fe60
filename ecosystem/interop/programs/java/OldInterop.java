import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.AppInfoParser;

/** The checks with Java clients of 0.11 to 3.9, with methods that all of them have. Arguments: bootstrap, prefix, checks. */
public class OldInterop {
    interface Check { void run(String name) throws Exception; }

    static final int COUNT = 40;
    static final long LIMIT_MS = 20_000;
    static String bootstrap;

    public static void main(String[] args) {
        bootstrap = args[0];
        Map<String, Check> checks = new HashMap<>();
        checks.put("produce", OldInterop::produce);
        checks.put("commit", name -> transaction(name, true));
        checks.put("abort", name -> transaction(name, false));
        checks.put("fence", OldInterop::fence);
        checks.put("offsets-in-transaction", OldInterop::offsets);
        checks.put("rebalance", OldInterop::rebalance);
        System.out.printf("{\"client\": \"java\", \"version\": \"%s\"}%n", AppInfoParser.getVersion());
        for (String check : Arrays.asList(args).subList(2, args.length)) {
            long began = System.nanoTime();
            String result = checks.containsKey(check) ? "pass" : "not offered", detail = "";
            try {
                if (checks.containsKey(check)) checks.get(check).run(args[1] + "-" + check);
            } catch (Throwable error) {
                error.printStackTrace();
                result = "fail";
                detail = error.toString().replace("\\", "\\\\").replace("\"", "\\\"").replaceAll("\\s+", " ");
            }
            System.out.printf("{\"check\": \"%s\", \"result\": \"%s\", \"detail\": \"%s\", \"seconds\": %.2f}%n",
                check, result, detail, (System.nanoTime() - began) / 1e9);
        }
        System.exit(0);
    }

    static KafkaProducer<String, String> producer(Object... settings) {
        return new KafkaProducer<>(with(settings, "enable.idempotence", "true"), new StringSerializer(), new StringSerializer());
    }

    static KafkaConsumer<String, String> consumer(Object... settings) {
        Map<String, Object> all = with(settings, "auto.offset.reset", "earliest", "enable.auto.commit", "false");
        return new KafkaConsumer<>(all, new StringDeserializer(), new StringDeserializer());
    }

    static Map<String, Object> with(Object[] settings, Object... more) {
        Map<String, Object> all = new HashMap<>();
        all.put("bootstrap.servers", bootstrap);
        for (Object[] pairs : Arrays.asList(more, settings))
            for (int at = 0; at < pairs.length; at += 2) all.put((String) pairs[at], pairs[at + 1]);
        return all;
    }

    static void send(KafkaProducer<String, String> producer, String topic, int count) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (int at = 0; at < count; at++) sent.add(producer.send(new ProducerRecord<>(topic, 0, "k" + at, "v" + at)));
        for (Future<RecordMetadata> each : sent) each.get(LIMIT_MS, TimeUnit.MILLISECONDS);
    }

    static List<String> values(KafkaConsumer<String, String> consumer, int count) {
        List<String> found = new ArrayList<>();
        for (long until = System.currentTimeMillis() + LIMIT_MS; found.size() < count && System.currentTimeMillis() < until;)
            for (ConsumerRecord<String, String> each : consumer.poll(200)) found.add(each.value());
        return found;
    }

    static List<String> read(String topic, String isolation, int count) {
        try (KafkaConsumer<String, String> consumer = consumer("isolation.level", isolation)) {
            consumer.assign(Collections.singletonList(new TopicPartition(topic, 0)));
            return values(consumer, count);
        }
    }

    static void same(Object found, Object expected) {
        if (!expected.equals(found)) throw new AssertionError(found + ", expected " + expected);
    }

    static List<String> numbered(int count) {
        List<String> all = new ArrayList<>();
        for (int at = 0; at < count; at++) all.add("v" + at);
        return all;
    }

    static void produce(String topic) throws Exception {
        for (String codec : Arrays.asList("none", "gzip", "snappy", "lz4")) {
            try (KafkaProducer<String, String> producer = producer("compression.type", codec)) {
                send(producer, topic + codec, COUNT);
            }
            same(read(topic + codec, "read_uncommitted", COUNT), numbered(COUNT));
        }
    }

    static void transaction(String topic, boolean commits) throws Exception {
        try (KafkaProducer<String, String> producer = producer("transactional.id", topic)) {
            producer.initTransactions();
            producer.beginTransaction();
            send(producer, topic, 3);
            if (commits) producer.commitTransaction(); else producer.abortTransaction();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, 0, "k", "last"));
            producer.commitTransaction();
        }
        List<String> expected = commits ? numbered(3) : new ArrayList<>();
        expected.add("last");
        same(read(topic, "read_committed", expected.size()), expected);
    }

    static void fence(String topic) throws Exception {
        try (KafkaProducer<String, String> zombie = producer("transactional.id", topic)) {
            zombie.initTransactions();
            zombie.beginTransaction();
            send(zombie, topic, 1);
            try (KafkaProducer<String, String> younger = producer("transactional.id", topic)) {
                younger.initTransactions();
                try {
                    zombie.commitTransaction();
                    throw new AssertionError("the zombie committed");
                } catch (ProducerFencedException fenced) {
                    // this exception is expected
                }
            }
        }
    }

    static void offsets(String topic) throws Exception {
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaProducer<String, String> producer = producer("transactional.id", topic);
             KafkaConsumer<String, String> consumer = consumer("group.id", topic)) {
            producer.initTransactions();
            producer.beginTransaction();
            send(producer, topic, 1);
            producer.sendOffsetsToTransaction(Collections.singletonMap(partition, new OffsetAndMetadata(7)), topic);
            producer.commitTransaction();
            same(consumer.committed(partition).offset(), 7L);
        }
    }

    static void rebalance(String topic) throws Exception {
        try (KafkaProducer<String, String> producer = producer()) {
            for (int at = 0; at < COUNT; at++) producer.send(new ProducerRecord<>(topic, "k" + at, "v" + at)).get();
        }
        TreeSet<String> found = new TreeSet<>();
        try (KafkaConsumer<String, String> one = consumer("group.id", topic)) {
            one.subscribe(Collections.singletonList(topic));
            found.addAll(values(one, COUNT));
            one.commitSync();
        }
        same(found, new TreeSet<>(numbered(COUNT)));
        try (KafkaConsumer<String, String> next = consumer("group.id", topic)) {
            next.subscribe(Collections.singletonList(topic));
            for (int polls = 0; polls < 20 && next.assignment().isEmpty(); polls++) next.poll(200);
            for (TopicPartition each : next.assignment())
                same(next.position(each), next.endOffsets(Collections.singletonList(each)).get(each));
        }
    }
}
