package wirebroker;

import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * A fault in the words of docs/how-to/faults.md, which describes each kind. Required options are arguments, {@link #with} sets
 * the other options, and the other methods choose the requests:
 * {@code Fault.loseAck().api("Produce").topic("orders").nth(1)}.
 */
public final class Fault {
    final Map<String, Object> words = new LinkedHashMap<>();

    private Fault(String kind) {
        words.put("kind", kind);
    }

    /** Sets an option of the fault, such as {@code with("then", "silence")}. */
    public Fault with(String option, Object value) {
        words.put(option, value);
        return this;
    }

    /** Lets the broker handle the request before the fault (error, delay, disconnect or resetConnection) takes effect. */
    public Fault after() { return with("after", true); }

    /** Kafka's name of a request, such as "Produce". */
    public Fault api(String api) { return with("api", api); }
    public Fault topic(String topic) { return with("topic", topic); }
    public Fault partition(int partition) { return with("partition", partition); }
    public Fault group(String group) { return with("group", group); }
    public Fault transactionalId(String id) { return with("transactional_id", id); }
    public Fault clientId(String id) { return with("client_id", id); }
    /** The principal, such as "User:alice". */
    public Fault principal(String principal) { return with("principal", principal); }
    public Fault node(int node) { return with("node", node); }
    /** The fault fires only on the nth match, counted from 1. */
    public Fault nth(int nth) { return with("nth", nth); }
    public Fault every(int every) { return with("every", every); }
    /** The fault fires at most this many times. */
    public Fault times(int times) { return with("times", times); }
    public Fault probability(double probability) { return with("probability", probability); }

    // The kinds of faults.
    public static Fault loseRequest() { return new Fault("lose_request"); }
    public static Fault loseAck() { return new Fault("lose_ack"); }
    public static Fault error(String code) { return new Fault("error").with("code", code); }
    public static Fault delay(Duration by) { return lasting("delay", by); }
    public static Fault disconnect() { return new Fault("disconnect"); }
    public static Fault throttle(Duration by) { return lasting("throttle", by); }
    public static Fault reorder(int others) { return new Fault("reorder").with("others", others); }
    public static Fault observe() { return new Fault("observe"); }
    public static Fault cut(int bytes) { return new Fault("cut").with("bytes", bytes); }
    public static Fault slice(int bytes) { return new Fault("slice").with("bytes", bytes); }
    public static Fault bandwidth(int bytesPerSecond) { return new Fault("bandwidth").with("rate", bytesPerSecond); }
    public static Fault corrupt(int bytes) { return new Fault("corrupt").with("bytes", bytes); }
    public static Fault resetConnection() { return new Fault("reset"); }
    public static Fault refuse() { return new Fault("refuse"); }
    public static Fault close() { return new Fault("close"); }
    public static Fault failWrite() { return new Fault("fail_write"); }
    public static Fault slowWrite(Duration by) { return lasting("slow_write", by); }
    public static Fault diskFull() { return new Fault("disk_full"); }
    public static Fault crashAfterWrite() { return new Fault("crash_after_write"); }
    public static Fault expireProducer() { return new Fault("expire_producer"); }
    public static Fault expireSession() { return new Fault("expire_session"); }
    public static Fault withdrawAcl(String acl) { return new Fault("withdraw_acl").with("acl", acl); }
    public static Fault expireTransactionalId(String id) { return new Fault("expire_transactional_id").transactionalId(id); }
    public static Fault fence(String transactionalId) { return new Fault("fence").transactionalId(transactionalId); }
    public static Fault slowReassignment(Duration by) { return lasting("slow_reassignment", by); }
    public static Fault expireMember() { return new Fault("expire_member"); }
    public static Fault moveLeader() { return new Fault("move_leader"); }
    public static Fault moveCoordinator() { return new Fault("move_coordinator"); }
    public static Fault advanceClock(Duration by) { return lasting("advance", by); }
    public static Fault restart() { return new Fault("restart"); }
    public static Fault upgrade(String to) { return new Fault("upgrade").with("to", to); }
    public static Fault truncate(String topic, int partition, long offset) {
        return new Fault("truncate").topic(topic).partition(partition).with("offset", offset);
    }
    public static Fault loseCoordinator() { return new Fault("lose_coordinator"); }
    public static Fault stallHandshake() { return new Fault("stall_handshake"); }
    public static Fault expireCertificate() { return new Fault("expire_certificate"); }

    private static Fault lasting(String kind, Duration by) {
        return new Fault(kind).with("ms", by.toMillis());
    }
}
