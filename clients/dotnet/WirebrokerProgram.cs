using System.Diagnostics;
using System.Runtime.InteropServices;
using System.Security.Cryptography;
using System.Text.Json;

namespace Wirebroker;

/// <summary>Finds the program `wirebroker`: WIREBROKER, else the PATH, else the pinned download.</summary>
internal static class WirebrokerProgram
{
    private const string Missing = "there is no wirebroker: put `wirebroker` on the PATH, or set WIREBROKER to the program; ";

    private sealed record Release(string Version, string Url, Dictionary<string, string> Sha256);

    internal static async Task<string> Find()
    {
        var given = Variable("WIREBROKER");
        if (given != "") return given;
        var executable = OperatingSystem.IsWindows() ? "wirebroker.exe" : "wirebroker";
        var onPath = Variable("PATH").Split(Path.PathSeparator).Select(folder => Path.Combine(folder, executable));
        if (onPath.FirstOrDefault(File.Exists) is { } found) return found;
        using var pinned = typeof(WirebrokerProgram).Assembly.GetManifestResourceStream("release.json")!;
        var release = JsonSerializer.Deserialize<Release>(pinned, new JsonSerializerOptions(JsonSerializerDefaults.Web))!;
        if (release.Url == "")
        {
            throw new InvalidOperationException(Missing + "no release is published yet, so it cannot be downloaded");
        }
        var system = OperatingSystem.IsWindows() ? "windows" : OperatingSystem.IsMacOS() ? "macos" : "linux";
        var platform = $"{system}-{RuntimeInformation.OSArchitecture.ToString().ToLowerInvariant()}";
        string[] caches =
        [
            Variable("XDG_CACHE_HOME"), Variable("LOCALAPPDATA"),
            Path.Combine(Environment.GetFolderPath(Environment.SpecialFolder.UserProfile), ".cache"),
        ];
        var name = $"wirebroker-runtime-{release.Version}-{platform}";
        var folder = Path.Combine(caches.First(cache => cache != ""), "wirebroker", name);
        var program = Path.Combine(folder, executable);
        if (File.Exists(program)) return program;
        if (Variable("WIREBROKER_OFFLINE") == "1")
        {
            throw new InvalidOperationException(Missing + "WIREBROKER_OFFLINE=1 forbids the download");
        }
        var address = release.Url.Replace("{version}", release.Version).Replace("{platform}", platform);
        await Download(address, release.Sha256.GetValueOrDefault(platform, ""), folder);
        return program;
    }

    private static string Variable(string name) => Environment.GetEnvironmentVariable(name) ?? "";

    /// <summary>Fetches an archive, checks its SHA-256, and moves the folder in the archive to its place.</summary>
    private static async Task Download(string address, string expected, string folder)
    {
        using var http = new HttpClient();
        var archive = await http.GetByteArrayAsync(address);
        var sum = Convert.ToHexString(SHA256.HashData(archive)).ToLowerInvariant();
        if (sum != expected)
        {
            throw new InvalidOperationException($"{address} has the SHA-256 {sum}; {expected} was expected");
        }
        var fresh = $"{folder}-{Environment.ProcessId}"; // other processes may download at the same time
        Directory.CreateDirectory(fresh);
        var settings = new ProcessStartInfo("tar", ["-xzf", "-", "-C", fresh]) { RedirectStandardInput = true };
        using var tar = Process.Start(settings)!;
        await tar.StandardInput.BaseStream.WriteAsync(archive);
        tar.StandardInput.Close();
        await tar.WaitForExitAsync();
        try
        {
            Directory.Move(Path.Combine(fresh, Path.GetFileName(folder)), folder);
        }
        catch (IOException) when (Directory.Exists(folder))
        {
            // another process has moved the folder in the meantime
        }
        Directory.Delete(fresh, recursive: true);
    }
}
