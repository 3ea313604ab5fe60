// Finds the program `wirebroker`: WIREBROKER, else the platform's package, else the PATH, else the pinned download.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { accessSync, constants, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { homedir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

const system = { darwin: "macos", win32: "windows" }[process.platform] ?? process.platform;
const platform = `${system}-${process.arch}`;
const executable = process.platform === "win32" ? "wirebroker.exe" : "wirebroker";
const missing = "there is no wirebroker: put `wirebroker` on the PATH, or set WIREBROKER to the program; ";

/** The release to download: a URL with {version} and {platform}, and the SHA-256 of each platform's archive. */
export const pinned = JSON.parse(readFileSync(new URL("release.json", import.meta.url), "utf8"));

export async function find(release = pinned) {
  return process.env.WIREBROKER || packaged() || onPath() || (await downloaded(release));
}

function packaged() {
  try {
    const paths = [path.dirname(fileURLToPath(import.meta.url)), process.cwd()];
    const manifest = createRequire(import.meta.url).resolve(`@wirebroker/${platform}/package.json`, { paths });
    return path.join(path.dirname(manifest), executable);
  } catch {
    return undefined; // the package is not installed
  }
}

function onPath() {
  const programs = (process.env.PATH ?? "").split(path.delimiter).map((folder) => path.join(folder, executable));
  return programs.find((program) => {
    try {
      accessSync(program, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

/** The program of a release, from the user's cache. It is downloaded if the cache does not have it. */
async function downloaded({ version, url, sha256 }) {
  if (!url) throw new Error(`${missing}no release is published yet, so it cannot be downloaded`);
  const cache = process.env.XDG_CACHE_HOME || process.env.LOCALAPPDATA || path.join(homedir(), ".cache");
  const name = `wirebroker-runtime-${version}-${platform}`;
  const folder = path.join(cache, "wirebroker", name);
  const program = path.join(folder, executable);
  if (existsSync(program)) return program;
  if (process.env.WIREBROKER_OFFLINE === "1") throw new Error(`${missing}WIREBROKER_OFFLINE=1 forbids the download`);
  const address = url.replace("{version}", version).replace("{platform}", platform);
  const response = await fetch(address);
  if (!response.ok) throw new Error(`${missing}${address} responded with ${response.status}`);
  const archive = Buffer.from(await response.arrayBuffer());
  const sum = createHash("sha256").update(archive).digest("hex");
  if (sum !== sha256[platform]) throw new Error(`${address} has the SHA-256 ${sum}; ${sha256[platform]} was expected`);
  mkdirSync(path.dirname(folder), { recursive: true });
  const fresh = mkdtempSync(`${folder}-`); // other processes may download at the same time
  try {
    execFileSync("tar", ["-xzf", "-", "-C", fresh], { input: archive });
    renameSync(path.join(fresh, name), folder);
  } catch (error) {
    if (!existsSync(program)) throw error;
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
  return program;
}
