using Confluent.Kafka;

/// <summary>The code under test.</summary>
public static class Orders
{
    public static async Task Send(string bootstrap, string id, string order)
    {
        var settings = new ProducerConfig { BootstrapServers = bootstrap, EnableIdempotence = true };
        using var producer = new ProducerBuilder<string, string>(settings).Build();
        await producer.ProduceAsync("orders", new Message<string, string> { Key = id, Value = order });
    }
}
