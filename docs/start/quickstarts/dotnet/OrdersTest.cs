using Xunit;

public class OrdersTest(Wirebroker broker) : IClassFixture<Wirebroker>
{
    [Fact]
    public async Task A_lost_acknowledgement_doubles_nothing()
    {
        await broker.Ask(HttpMethod.Post, "/reset", new { soft = true });
        var fault = new { kind = "lose_ack", api = "Produce", topic = "orders", nth = 1 };
        var lost = await broker.Ask(HttpMethod.Post, "/faults", fault);

        await Orders.Send(broker.Bootstrap, "order-1", "a pound of tea");

        await broker.Ask(HttpMethod.Get, $"/faults/{lost.GetProperty("id")}/assert-fired");
        var seen = await broker.Ask(HttpMethod.Get, "/verdicts?topic=orders");
        var verdicts = seen.GetProperty("verdicts").EnumerateArray().Select(row => row.GetProperty("verdict").GetString());
        Assert.Equal(["accepted", "duplicate"], verdicts);
        var intended = new[] { new { topic = "orders", key = "order-1", value = "a pound of tea" } };
        var audit = await broker.Ask(HttpMethod.Post, "/audit", new { intended });
        Assert.Empty(audit.GetProperty("findings").EnumerateArray());
    }
}
