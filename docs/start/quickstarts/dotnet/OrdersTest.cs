using Wirebroker;
using Xunit;

public class OrdersTest
{
    [Fact]
    public Task A_lost_acknowledgement_doubles_nothing() => Broker.Test(["orders:3"], async broker =>
    {
        var lost = await broker.AddFault(Fault.LoseAck().Api("Produce").Topic("orders").Nth(1));

        await Orders.Send(broker.Bootstrap, "order-1", "a pound of tea");

        await lost.AssertFired();
        Assert.Equal(new[] { "accepted", "duplicate" }, await broker.Verdicts("orders"));
        await broker.AssertRecords("orders", KafkaRecord.Of("order-1", "a pound of tea"));
    });
}
