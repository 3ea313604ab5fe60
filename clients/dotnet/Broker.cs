using System.Diagnostics;
using System.Net.Http.Json;
using System.Runtime.CompilerServices;
using System.Text.Json;

namespace Wirebroker;

/// <summary>The broker refused a call; the message tells why.</summary>
public sealed class RefusedException(string message) : Exception(message);

/// <summary>A running broker.</summary>
public sealed class Broker : IDisposable
{
    private static readonly SemaphoreSlim Turn = new(1);
    private static readonly JsonSerializerOptions Web = new(JsonSerializerDefaults.Web);
    private static Broker? shared;

    private readonly HttpClient http = new();
    private readonly Process? process; // null: another program has started it

    private Broker(string bootstrap, string control, Process? process = null)
    {
        (Bootstrap, Control, this.process) = (bootstrap, control, process);
    }

    /// <summary>The address for clients.</summary>
    public string Bootstrap { get; }

    /// <summary>The address of the HTTP control.</summary>
    public string Control { get; }

    /// <summary>
    /// Empties the broker that all tests of the process share, makes sure that it has the topics ("orders", or "orders:3" for 3
    /// partitions), and runs a test with it. Clients stay connected. A test that fails prints the broker's report. Tests that
    /// share the broker run one after the other.
    /// </summary>
    public static async Task Test(string[] topics, Func<Broker, Task> test, [CallerMemberName] string name = "")
    {
        await Turn.WaitAsync();
        try
        {
            shared ??= Given() ?? await Start();
            await shared.Reset(name, topics);
            await shared.Reporting(test);
        }
        finally
        {
            Turn.Release();
        }
    }

    /// <summary>Attaches to the broker that the environment names, if there is one.</summary>
    private static Broker? Given()
    {
        var bootstrap = Environment.GetEnvironmentVariable("WIREBROKER_BOOTSTRAP") ?? "";
        var control = Environment.GetEnvironmentVariable("WIREBROKER_CONTROL") ?? "";
        if (bootstrap == "" != (control == ""))
        {
            throw new InvalidOperationException(
                "WIREBROKER_BOOTSTRAP and WIREBROKER_CONTROL name a running broker together; only one of them is set");
        }
        return bootstrap == "" ? null : new Broker(bootstrap, control);
    }

    /// <summary>Starts a broker of its own with these flags of `wirebroker serve`.</summary>
    public static async Task<Broker> Start(params string[] options)
    {
        var program = await WirebrokerProgram.Find();
        string[] flags = ["serve", "--port", "0", "--control", "0", "--ready", "json", "--exit-with-parent", .. options];
        var settings = new ProcessStartInfo(program, flags)
        {
            RedirectStandardInput = true, // its end tells the broker that this process has ended
            RedirectStandardOutput = true,
            RedirectStandardError = true,
        };
        var process = Process.Start(settings)!;
        var messages = process.StandardError.ReadToEndAsync();
        var line = await process.StandardOutput.ReadLineAsync();
        if (line is null)
        {
            throw new InvalidOperationException($"{program} {string.Join(" ", flags)} did not start: {await messages}");
        }
        var ready = JsonSerializer.Deserialize<JsonElement>(line);
        return new Broker(ready.GetProperty("bootstrap").GetString()!, ready.GetProperty("control").GetString()!, process);
    }

    /// <summary>Runs a test, and prints the broker's report if it fails.</summary>
    public async Task Reporting(Func<Broker, Task> test)
    {
        try
        {
            await test(this);
        }
        catch
        {
            Console.Error.WriteLine(await Report());
            throw;
        }
    }

    /// <summary>Ends a broker of <see cref="Start"/>. If this method is not called, the broker ends with the process.</summary>
    public void Dispose()
    {
        process?.StandardInput.Close(); // the broker ends, and closes its files
        process?.WaitForExit();
        process?.Dispose();
        http.Dispose();
    }

    /// <summary>Calls an endpoint of the control. The body is written as JSON.</summary>
    public async Task<JsonElement> Ask(HttpMethod method, string path, object? body = null)
    {
        using var request = new HttpRequestMessage(method, Control + path);
        request.Headers.Add("Accept", "application/json");
        if (body is not null) request.Content = JsonContent.Create(body);
        using var response = await http.SendAsync(request);
        var result = await response.Content.ReadFromJsonAsync<JsonElement>();
        if (!response.IsSuccessStatusCode) throw new RefusedException(result.GetProperty("detail").GetString()!);
        return result;
    }

    /// <summary>Returns the broker's report as text: what happened since the test began.</summary>
    public async Task<string> Report() => (await Ask(HttpMethod.Get, "/report")).GetProperty("text").GetString()!;

    /// <summary>Empties the broker, whose clients stay connected, and makes sure that it has the topics.</summary>
    public Task Reset(string test, params string[] topics) => Ask(HttpMethod.Post, "/tests", new { name = test, topics });

    /// <summary>Loads a fault, which applies from the next request on and until the next test.</summary>
    public async Task<Rule> AddFault(Fault fault)
    {
        var loaded = await Ask(HttpMethod.Post, "/faults", fault.Words);
        return new Rule(this, loaded.GetProperty("id").GetInt32());
    }

    /// <summary>Stores records without a client. A record without a partition goes to partition 0.</summary>
    public Task Produce(string topic, params KafkaRecord[] records) =>
        Ask(HttpMethod.Post, $"/topics/{topic}/records", new { records = records.Select(record => record.Parts) });

    /// <summary>Returns the committed records of a topic, in the order of partition and offset.</summary>
    public async Task<List<StoredRecord>> Records(string topic)
    {
        var records = new List<StoredRecord>();
        for (var next = $"/topics/{topic}/records?committed=true"; next is not null;)
        {
            var page = await Ask(HttpMethod.Get, next);
            records.AddRange(page.GetProperty("records").Deserialize<List<StoredRecord>>(Web)!);
            next = page.GetProperty("next").GetString();
        }
        return records;
    }

    /// <summary>Waits until the topic has as many committed records as expected, and compares them, in any order.</summary>
    public Task AssertRecords(string topic, params KafkaRecord[] expected) =>
        Ask(HttpMethod.Post, $"/topics/{topic}/records/assert",
            new { records = expected.Select(record => record.Parts), in_order = false });

    /// <summary>Returns the broker's verdict on each produced batch of a topic: "accepted", "duplicate" or "rejected".</summary>
    public async Task<List<string>> Verdicts(string topic)
    {
        var seen = await Ask(HttpMethod.Get, $"/verdicts?topic={topic}");
        return seen.GetProperty("verdicts").EnumerateArray().Select(row => row.GetProperty("verdict").GetString()!).ToList();
    }

    /// <summary>Stops a broker as kill -9 does, until <see cref="StartBroker"/>. A single broker has the node id 1.</summary>
    public Task KillBroker(int node = 1) => Ask(HttpMethod.Post, $"/brokers/{node}/kill");

    /// <summary>Starts a broker that <see cref="KillBroker"/> stopped.</summary>
    public Task StartBroker(int node = 1) => Ask(HttpMethod.Post, $"/brokers/{node}/start");

    /// <summary>Moves the broker's clock: sessions and transactions time out, records and offsets expire.</summary>
    public Task Advance(TimeSpan by) => Ask(HttpMethod.Post, "/clock/advance", new { milliseconds = by.TotalMilliseconds });
}

/// <summary>A fault that the broker has loaded.</summary>
public sealed class Rule(Broker broker, int id)
{
    /// <summary>Waits until the fault has fired this many times.</summary>
    public Task WaitFired(int times, TimeSpan timeout) => broker.Ask(
        HttpMethod.Get, FormattableString.Invariant($"/faults/{id}/wait?times={times}&timeout={timeout.TotalSeconds}"));

    /// <summary>Throws if the fault has not fired.</summary>
    public Task AssertFired() => broker.Ask(HttpMethod.Get, $"/faults/{id}/assert-fired");
}
