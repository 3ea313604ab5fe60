// The checks with Kafka Streams, with streams groups (KIP-1071) and exactly-once v2: java -cp 'JARS/*' Streams.java BOOTSTRAP
// PREFIX CHECK...

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.*;
import org.apache.kafka.common.utils.AppInfoParser;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.kstream.*;

public class Streams {
    static final Duration LIMIT = Duration.ofSeconds(60);
    static final int WORDS = 5;

    static String bootstrap;

    public static void main(String[] args) {
        bootstrap = args[0];
        System.out.printf("{\"client\": \"kafka-streams\", \"version\": \"%s\"}%n", AppInfoParser.getVersion());
        for (String check : Arrays.asList(args).subList(2, args.length)) {
            long began = System.nanoTime();
            String result = check.equals("streams") ? "pass" : "not offered";
            String detail = "";
            try {
                if (check.equals("streams")) detail = counts(args[1] + "-" + check);
            } catch (Throwable error) {
                error.printStackTrace();
                result = "fail";
                detail = error.toString();
            }
            System.out.printf("{\"check\": \"%s\", \"result\": \"%s\", \"detail\": \"%s\", \"seconds\": %.2f}%n", check, result,
                detail.replace("\\", "\\\\").replace("\"", "\\\"").replaceAll("\\s+", " "), (System.nanoTime() - began) / 1e9);
        }
        System.exit(0);
    }

    /** One instance counts words, then two instances, then again one instance. Every count must be exact. */
    static String counts(String name) throws Exception {
        String in = name + "-in", out = name + "-out";
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            List<NewTopic> wanted = new ArrayList<>();
            for (String topic : List.of(in, out)) wanted.add(new NewTopic(topic, Optional.of(2), Optional.empty()));
            admin.createTopics(wanted).all().get(20, TimeUnit.SECONDS);
            KafkaStreams one = start(name, in, out);
            KafkaStreams two = null;
            try {
                send(in, 0, 20);
                until(() -> found(out).equals(expected(20)), "20 words are counted by one instance");
                two = start(name, in, out);
                final KafkaStreams second = two;
                until(() -> tasks(one) > 0 && tasks(second) > 0, "both instances have tasks");
                send(in, 20, 60);
                until(() -> found(out).equals(expected(60)), "60 words are counted by two instances");
                StreamsGroupDescription group = admin.describeStreamsGroups(List.of(name)).all().get(20, TimeUnit.SECONDS).get(name);
                if (group.members().size() != 2) throw new AssertionError("members " + group.members());
                if (group.subtopologies().size() != 2) throw new AssertionError("subtopologies " + group.subtopologies());
                two.close(Duration.ofSeconds(20));
                send(in, 60, 100);
                until(() -> found(out).equals(expected(100)), "100 words are counted by the one that stayed");
            } finally {
                if (two != null) two.close(Duration.ofSeconds(20));
                one.close(Duration.ofSeconds(20));
            }
            boolean listed = admin.listGroups().all().get(20, TimeUnit.SECONDS).stream()
                .anyMatch(each -> each.groupId().equals(name) && each.type().equals(Optional.of(GroupType.STREAMS)));
            if (!listed) throw new AssertionError("the group is not listed as a streams group");
            until(() -> deleted(admin, name), "the group is empty and deleted");
        }
        return "";
    }

    static boolean deleted(Admin admin, String name) throws Exception {
        try {
            admin.deleteStreamsGroups(List.of(name)).all().get(20, TimeUnit.SECONDS);
            return true;
        } catch (java.util.concurrent.ExecutionException error) {
            if (error.getCause() instanceof org.apache.kafka.common.errors.GroupNotEmptyException) return false;
            throw error;
        }
    }

    static KafkaStreams start(String name, String in, String out) throws Exception {
        Path folder = Files.createTempDirectory("streams");
        folder.toFile().deleteOnExit();
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, name);
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        settings.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, "streams");
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, folder.toString());
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> words = builder.stream(in);
        words.groupBy((key, word) -> word, Grouped.as("words")).count(Materialized.as("counts"))
            .toStream().to(out, Produced.with(Serdes.String(), Serdes.Long()));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.start();
        return streams;
    }

    static int tasks(KafkaStreams streams) {
        if (streams.state() != KafkaStreams.State.RUNNING) return 0;
        return streams.metadataForLocalThreads().stream().mapToInt(thread -> thread.activeTasks().size()).sum();
    }

    static void send(String topic, int first, int end) {
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap);
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (int i = first; i < end; i++) producer.send(new ProducerRecord<>(topic, "key-" + i, "word-" + i % WORDS));
        }
    }

    static Map<String, List<Long>> expected(int words) {
        Map<String, List<Long>> counts = new TreeMap<>();
        for (int i = 0; i < words; i++) {
            List<Long> seen = counts.computeIfAbsent("word-" + i % WORDS, word -> new ArrayList<>());
            seen.add(seen.size() + 1L);
        }
        return counts;
    }

    /** Returns all counts of each word that read_committed shows: 1, 2, 3 … if each word was counted exactly once. */
    static Map<String, List<Long>> found(String topic) {
        Map<String, List<Long>> counts = new TreeMap<>();
        Map<String, Object> settings = new HashMap<>(Map.of(
            "bootstrap.servers", bootstrap, "isolation.level", "read_committed", "auto.offset.reset", "earliest"));
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new LongDeserializer())) {
            List<TopicPartition> all = List.of(new TopicPartition(topic, 0), new TopicPartition(topic, 1));
            consumer.assign(all);
            consumer.seekToBeginning(all);
            Map<TopicPartition, Long> ends = consumer.endOffsets(all);
            long deadline = System.nanoTime() + LIMIT.toNanos();
            while (all.stream().anyMatch(each -> consumer.position(each) < ends.get(each))) {
                if (System.nanoTime() > deadline) throw new AssertionError("the end of " + topic + " is not reached");
                for (var record : consumer.poll(Duration.ofMillis(100))) {
                    counts.computeIfAbsent(record.key(), word -> new ArrayList<>()).add(record.value());
                }
            }
        }
        return counts;
    }

    static void until(Callable<Boolean> condition, String what) throws Exception {
        long deadline = System.nanoTime() + LIMIT.toNanos();
        while (!condition.call()) {
            if (System.nanoTime() > deadline) throw new AssertionError("after 60 s this is still not so: " + what);
            Thread.sleep(100);
        }
    }
}
