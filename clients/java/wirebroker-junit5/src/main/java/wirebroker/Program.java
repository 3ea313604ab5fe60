package wirebroker;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.Map;
import java.util.function.Supplier;

/** Finds the program {@code wirebroker}: WIREBROKER, else the jar for the platform, else the PATH, else the pinned download. */
final class Program {
    static final String PLATFORM = platform(System.getProperty("os.name"), System.getProperty("os.arch"));
    private static final String EXECUTABLE = PLATFORM.startsWith("windows") ? "wirebroker.exe" : "wirebroker";
    private static final String MISSING =
        "there is no wirebroker: put `wirebroker` on the PATH, or set WIREBROKER to the program; ";

    /** The release to download: a URL with {version} and {platform}, and the SHA-256 of each platform's archive. */
    record Release(String version, String url, Map<String, String> sha256) {
        static final Release PINNED = Broker.JSON.fromJson(text("/wirebroker/release.json"), Release.class);

        String name() {
            return "wirebroker-runtime-" + version + "-" + PLATFORM;
        }
    }

    static String find(Map<String, String> environment) {
        return find(environment, Release.PINNED);
    }

    static String find(Map<String, String> environment, Release release) {
        String given = environment.getOrDefault("WIREBROKER", "");
        if (!given.isEmpty()) return given;
        String home = System.getProperty("user.home");
        Path base = Path.of(environment.getOrDefault(
            "XDG_CACHE_HOME", environment.getOrDefault("LOCALAPPDATA", home + "/.cache")), "wirebroker");
        String archive = "/" + release.name() + ".tar.gz";
        if (Program.class.getResource(archive) != null) { // two builds of a version differ by their SHA-256
            String sum = text(archive + ".sha256").split(" ")[0];
            return unpacked(base.resolve(sum).resolve(release.name()), archive, sum, () -> resource(archive));
        }
        for (String folder : environment.getOrDefault("PATH", "").split(File.pathSeparator)) {
            Path program = Path.of(folder, EXECUTABLE);
            if (Files.isExecutable(program)) return program.toString();
        }
        if (release.url.isEmpty()) {
            throw new IllegalStateException(MISSING + "no release is published yet, so it cannot be downloaded");
        }
        String address = release.url.replace("{version}", release.version).replace("{platform}", PLATFORM);
        return unpacked(base.resolve(release.name()), address, release.sha256.get(PLATFORM), () -> {
            if ("1".equals(environment.get("WIREBROKER_OFFLINE"))) {
                throw new IllegalStateException(MISSING + "WIREBROKER_OFFLINE=1 forbids the download");
            }
            return download(address);
        });
    }

    static String platform(String system, String architecture) {
        String name = system.toLowerCase().split(" ")[0].replace("mac", "macos");
        return name + "-" + architecture.replace("amd64", "x64").replace("x86_64", "x64").replace("aarch64", "arm64");
    }

    private static byte[] download(String address) {
        var http = HttpClient.newBuilder().followRedirects(HttpClient.Redirect.NORMAL).build();
        try {
            var response = http.send(HttpRequest.newBuilder(URI.create(address)).build(), BodyHandlers.ofByteArray());
            if (response.statusCode() == 200) return response.body();
            throw new IllegalStateException(MISSING + address + " responded with " + response.statusCode());
        } catch (IOException | InterruptedException error) {
            throw new IllegalStateException(MISSING + "the download of " + address + " failed", error);
        }
    }

    private static byte[] resource(String name) {
        try (InputStream stream = Program.class.getResourceAsStream(name)) {
            return stream.readAllBytes();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static String text(String name) {
        return new String(resource(name), StandardCharsets.UTF_8);
    }

    /** Returns the program in the folder, and makes the folder from the archive if it does not exist yet. */
    private static String unpacked(Path folder, String from, String expected, Supplier<byte[]> archive) {
        Path program = folder.resolve(EXECUTABLE);
        if (Files.exists(program)) return program.toString();
        byte[] packed = archive.get();
        try {
            String sum = HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(packed));
            if (!sum.equals(expected)) {
                throw new IllegalStateException(from + " has the SHA-256 " + sum + "; " + expected + " was expected");
            }
            Files.createDirectories(folder.getParent());
            Path fresh = Files.createTempDirectory(folder.getParent(), "fresh-"); // other processes may unpack it, too
            var tar = new ProcessBuilder("tar", "-xzf", "-", "-C", fresh.toString()).inheritIO();
            var process = tar.redirectInput(ProcessBuilder.Redirect.PIPE).start();
            try (var input = process.getOutputStream()) {
                input.write(packed);
            }
            if (process.waitFor() != 0) throw new IllegalStateException("tar could not unpack " + from);
            fresh.resolve(folder.getFileName()).toFile().renameTo(folder.toFile());
            try (var left = Files.walk(fresh)) {
                left.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
            }
            if (!Files.exists(program)) throw new IllegalStateException(from + " holds no " + program);
            return program.toString();
        } catch (IOException | InterruptedException | GeneralSecurityException error) {
            throw new IllegalStateException("cannot unpack " + from, error);
        }
    }
}
