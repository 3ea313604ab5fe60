namespace Wirebroker;

/// <summary>
/// A record to store or to expect. A key, a value or the value of a header is a string, a byte[], null, or a result of
/// <see cref="Json"/>, <see cref="Subset"/> or <see cref="Regex"/>. In <see cref="Broker.AssertRecords"/> a part that is not given
/// matches anything.
/// </summary>
public sealed class KafkaRecord
{
    private readonly Dictionary<string, object?> headers = [];

    internal Dictionary<string, object?> Parts { get; } = [];

    /// <summary>A record with this key, which may be null, and this value, which is null for a tombstone.</summary>
    public static KafkaRecord Of(object? key, object? value) => OfValue(value).With("key", Data(key));

    /// <summary>A record with this value.</summary>
    public static KafkaRecord OfValue(object? value) => new KafkaRecord().With("value", Data(value));

    public KafkaRecord Header(string name, object? value)
    {
        headers[name] = Data(value);
        return With("headers", headers);
    }

    public KafkaRecord Partition(int partition) => With("partition", partition);

    /// <summary>The timestamp of a record to store, in ms since the epoch.</summary>
    public KafkaRecord Timestamp(long timestamp) => With("timestamp", timestamp);

    private KafkaRecord With(string part, object? value)
    {
        Parts[part] = value;
        return this;
    }

    /// <summary>A value as JSON.</summary>
    public static object Json(object? value) => new { json = value };

    /// <summary>Expects JSON with at least these fields.</summary>
    public static object Subset(object fields) => new { json_subset = fields };

    /// <summary>Expects a text in which the pattern matches. The pattern has the syntax of RE2.</summary>
    public static object Regex(string pattern) => new { regex = pattern };

    private static object? Data(object? value) => value is byte[] bytes ? new { base64 = Convert.ToBase64String(bytes) } : value;
}

/// <summary>A record as the broker stores it. The timestamp is in ms since the epoch.</summary>
public sealed record StoredRecord(
    string Topic, int Partition, long Offset, long Timestamp, StoredData? Key, StoredData? Value, List<StoredHeader> Headers);

/// <summary>A header; its value may be null.</summary>
public sealed record StoredHeader(string Name, StoredData? Value);

/// <summary>A key, a value or a header's value. The text is null if the bytes are not UTF-8.</summary>
public sealed record StoredData(string? Text, string Base64)
{
    public byte[] Bytes => Convert.FromBase64String(Base64);
}
