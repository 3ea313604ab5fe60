namespace Wirebroker;

/// <summary>
/// A fault in the words of docs/how-to/faults.md, which describes each kind. Required options are arguments, <see cref="With"/>
/// sets the other options, and the other methods choose the requests:
/// <c>Fault.LoseAck().Api("Produce").Topic("orders").Nth(1)</c>.
/// </summary>
public sealed class Fault
{
    internal Dictionary<string, object> Words { get; } = [];

    private Fault(string kind) => Words["kind"] = kind;

    /// <summary>Sets an option of the fault, such as <c>With("then", "silence")</c>.</summary>
    public Fault With(string option, object value)
    {
        Words[option] = value;
        return this;
    }

    /// <summary>Lets the broker handle the request before an Error, Delay, Disconnect or ResetConnection takes effect.</summary>
    public Fault After() => With("after", true);

    /// <summary>Kafka's name of a request, such as "Produce".</summary>
    public Fault Api(string value) => With("api", value);
    public Fault Topic(string value) => With("topic", value);
    public Fault Partition(int value) => With("partition", value);
    public Fault Group(string value) => With("group", value);
    public Fault TransactionalId(string value) => With("transactional_id", value);
    public Fault ClientId(string value) => With("client_id", value);
    /// <summary>The principal, such as "User:alice".</summary>
    public Fault Principal(string value) => With("principal", value);
    public Fault Node(int value) => With("node", value);
    /// <summary>The fault fires only on the nth match, counted from 1.</summary>
    public Fault Nth(int value) => With("nth", value);
    public Fault Every(int value) => With("every", value);
    /// <summary>The fault fires at most this many times.</summary>
    public Fault Times(int value) => With("times", value);
    public Fault Probability(double value) => With("probability", value);

    // The kinds of faults.
    public static Fault LoseRequest() => new("lose_request");
    public static Fault LoseAck() => new("lose_ack");
    public static Fault Error(string code) => new Fault("error").With("code", code);
    public static Fault Delay(TimeSpan by) => Lasting("delay", by);
    public static Fault Disconnect() => new("disconnect");
    public static Fault Throttle(TimeSpan by) => Lasting("throttle", by);
    public static Fault Reorder(int others) => new Fault("reorder").With("others", others);
    public static Fault Observe() => new("observe");
    public static Fault Cut(int bytes) => new Fault("cut").With("bytes", bytes);
    public static Fault Slice(int bytes) => new Fault("slice").With("bytes", bytes);
    public static Fault Bandwidth(int rate) => new Fault("bandwidth").With("rate", rate);
    public static Fault Corrupt(int bytes) => new Fault("corrupt").With("bytes", bytes);
    public static Fault ResetConnection() => new("reset");
    public static Fault Refuse() => new("refuse");
    public static Fault Close() => new("close");
    public static Fault FailWrite() => new("fail_write");
    public static Fault SlowWrite(TimeSpan by) => Lasting("slow_write", by);
    public static Fault DiskFull() => new("disk_full");
    public static Fault CrashAfterWrite() => new("crash_after_write");
    public static Fault ExpireProducer() => new("expire_producer");
    public static Fault ExpireSession() => new("expire_session");
    public static Fault WithdrawAcl(string acl) => new Fault("withdraw_acl").With("acl", acl);
    public static Fault ExpireTransactionalId(string id) => new Fault("expire_transactional_id").With("transactional_id", id);
    public static Fault Fence(string id) => new Fault("fence").With("transactional_id", id);
    public static Fault SlowReassignment(TimeSpan by) => Lasting("slow_reassignment", by);
    public static Fault ExpireMember() => new("expire_member");
    public static Fault MoveLeader() => new("move_leader");
    public static Fault MoveCoordinator() => new("move_coordinator");
    public static Fault AdvanceClock(TimeSpan by) => Lasting("advance", by);
    public static Fault Restart() => new("restart");
    public static Fault Upgrade(string to) => new Fault("upgrade").With("to", to);
    public static Fault Truncate(string topic, int partition, long offset) =>
        new Fault("truncate").Topic(topic).Partition(partition).With("offset", offset);
    public static Fault LoseCoordinator() => new("lose_coordinator");
    public static Fault StallHandshake() => new("stall_handshake");
    public static Fault ExpireCertificate() => new("expire_certificate");

    private static Fault Lasting(string kind, TimeSpan by) => new Fault(kind).With("ms", (long)by.TotalMilliseconds);
}
