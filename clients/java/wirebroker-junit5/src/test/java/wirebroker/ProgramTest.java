package wirebroker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpServer;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.DisabledOnOs;
import org.junit.jupiter.api.condition.OS;
import org.junit.jupiter.api.io.TempDir;
import wirebroker.Program.Release;

@DisabledOnOs(OS.WINDOWS)
class ProgramTest {
    private static final String FOLDER = "wirebroker-runtime-7-" + Program.PLATFORM;

    @TempDir
    Path folder;

    private final Map<String, String> environment = new HashMap<>();

    @Test
    void theProgramIsLookedForInOrder() throws Exception {
        environment.putAll(Map.of("WIREBROKER", "given", "XDG_CACHE_HOME", folder + "/cache", "PATH", folder.toString()));
        assertEquals("given", Program.find(environment));
        environment.remove("WIREBROKER");
        fails("no release is published yet", new Release("7", "", Map.of()));

        byte[] archive = packed();
        String sum = HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(archive));
        var site = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        site.createContext("/7/" + Program.PLATFORM, exchange -> {
            exchange.sendResponseHeaders(200, archive.length);
            exchange.getResponseBody().write(archive);
            exchange.close();
        });
        site.start();
        String url = "http://127.0.0.1:" + site.getAddress().getPort() + "/{version}/{platform}";
        environment.put("WIREBROKER_OFFLINE", "1");
        fails("WIREBROKER_OFFLINE=1 forbids the download", new Release("7", url, Map.of()));
        environment.remove("WIREBROKER_OFFLINE");
        fails("null was expected", new Release("7", url, Map.of()));
        var release = new Release("7", url, Map.of(Program.PLATFORM, sum));
        String program = Program.find(environment, release);
        assertEquals("#!/bin/sh\n", Files.readString(Path.of(program)));
        site.stop(0);
        assertEquals(program, Program.find(environment, release)); // the second time it is there

        Files.copy(Path.of(program), folder.resolve("wirebroker")).toFile().setExecutable(true);
        assertEquals(folder + "/wirebroker", Program.find(environment, release));
        var resource = Path.of(Program.class.getResource("/").toURI()).resolve(FOLDER + ".tar.gz");
        Files.write(resource, archive); // as the jar of the platform holds it
        var beside = Path.of(resource + ".sha256");
        Files.writeString(beside, sum + "  " + FOLDER + ".tar.gz\n");
        try {
            assertEquals(folder + "/cache/wirebroker/" + sum + "/" + FOLDER + "/wirebroker", Program.find(environment, release));
        } finally {
            Files.delete(resource);
            Files.delete(beside);
        }
    }

    @Test
    void theNamesOfPlatforms() {
        assertEquals("linux-x64", Program.platform("Linux", "amd64"));
        assertEquals("macos-arm64", Program.platform("Mac OS X", "aarch64"));
        assertEquals("windows-x64", Program.platform("Windows 11", "amd64"));
    }

    private void fails(String words, Release release) {
        var error = assertThrows(IllegalStateException.class, () -> Program.find(environment, release));
        assertTrue(error.getMessage().contains(words), error.getMessage());
    }

    /** An archive with the folder of a release of this platform. */
    private byte[] packed() throws Exception {
        Files.createDirectory(folder.resolve(FOLDER));
        var program = folder.resolve(FOLDER).resolve("wirebroker");
        Files.writeString(program, "#!/bin/sh\n");
        program.toFile().setExecutable(true);
        var tar = new ProcessBuilder("tar", "-czf", "-", "-C", folder.toString(), FOLDER).start();
        return tar.getInputStream().readAllBytes();
    }
}
