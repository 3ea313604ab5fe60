// Makes the npm package of a platform, such as @wirebroker/linux-x64, from an archive of scripts/build-runtime:
//
//     node clients/node/platform-package.mjs dist/wirebroker-runtime-0.1.0-linux-x64.tar.gz dist
//
// npm itself chooses the package for the machine's system and processor, so no script has to run after the installation.
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";

const [archive, folder] = process.argv.slice(2);
const [, version, system, cpu] = /wirebroker-runtime-(.+)-(\w+)-(\w+)\.tar\.gz$/.exec(archive ?? "") ?? [];
if (!cpu || !folder) {
  console.error("usage: node platform-package.mjs wirebroker-runtime-VERSION-SYSTEM-PROCESSOR.tar.gz FOLDER");
  process.exit(2);
}
const work = mkdtempSync(path.join(tmpdir(), "wirebroker-package-"));
try {
  execFileSync("tar", ["-xzf", path.resolve(archive), "-C", work, "--strip-components=1"]);
  const os = { macos: "darwin", windows: "win32" }[system] ?? system;
  const description = `The program of wirebroker for ${system} on ${cpu}`;
  const manifest = { name: `@wirebroker/${system}-${cpu}`, version, description, license: "Apache-2.0", os: [os], cpu: [cpu] };
  writeFileSync(path.join(work, "package.json"), JSON.stringify(manifest, null, 2));
  mkdirSync(folder, { recursive: true });
  execFileSync("npm", ["pack", "--silent", "--pack-destination", path.resolve(folder)], { cwd: work, stdio: "inherit" });
} finally {
  rmSync(work, { recursive: true, force: true });
}
