using System.Diagnostics;
using System.Net.Http.Json;
using System.Text.Json;

/// <summary>A broker on free ports for the tests of a class.</summary>
public sealed class Wirebroker : IDisposable
{
    private readonly HttpClient http = new();
    private readonly Process process;

    public Wirebroker()
    {
        var program = Environment.GetEnvironmentVariable("WIREBROKER") ?? "wirebroker";
        string[] options = ["serve", "--port", "0", "--control", "0", "--exit-with-parent", "--topic", "orders:3"];
        var pipes = new ProcessStartInfo(program, options) { RedirectStandardInput = true, RedirectStandardOutput = true };
        process = Process.Start(pipes)!;
        string? line;
        while ((line = process.StandardOutput.ReadLine()) != "ready")
        {
            if (line is null) throw new InvalidOperationException("wirebroker did not start");
            var words = line.Split(' ');
            if (words[0] == "listening") Bootstrap = words[2];
            if (words[0] == "control") http.BaseAddress = new Uri(words[2]);
        }
    }

    public string Bootstrap { get; } = "";

    /// <summary>Calls the control. An error of the control fails the test.</summary>
    public async Task<JsonElement> Ask(HttpMethod method, string path, object? body = null)
    {
        var request = new HttpRequestMessage(method, path) { Content = body is null ? null : JsonContent.Create(body) };
        var answer = await http.SendAsync(request);
        var result = await answer.Content.ReadFromJsonAsync<JsonElement>();
        if (!answer.IsSuccessStatusCode) throw new InvalidOperationException(result.GetProperty("detail").GetString());
        return result;
    }

    public void Dispose()
    {
        process.Kill();
        process.Dispose();
        http.Dispose();
    }
}
