//! Finds the program `wirebroker`: WIREBROKER, else the PATH, else the pinned download.
use std::env::consts::{ARCH, EXE_SUFFIX, OS};
use std::env::split_paths;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};

use serde_json::Value;
use sha2::{Digest, Sha256};

const MISSING: &str = "there is no wirebroker: put `wirebroker` on the PATH, or set WIREBROKER to the program; ";

/// The path of the program. The release is a URL with {version} and {platform}, and the SHA-256 of each platform's archive.
pub(crate) fn find(environment: &dyn Fn(&str) -> Option<String>, release: &str) -> Result<PathBuf, String> {
    let named = |variable| environment(variable).filter(|value| !value.is_empty());
    if let Some(program) = named("WIREBROKER") {
        return Ok(program.into());
    }
    let executable = format!("wirebroker{EXE_SUFFIX}");
    let path = named("PATH").unwrap_or_default();
    if let Some(program) = split_paths(&path).map(|folder| folder.join(&executable)).find(|program| program.is_file()) {
        return Ok(program);
    }
    let release: Value = serde_json::from_str(release).map_err(|error| error.to_string())?;
    let platform = platform();
    let [version, url, sum] =
        [&release["version"], &release["url"], &release["sha256"][&platform]].map(|value| value.as_str().unwrap_or_default());
    if url.is_empty() {
        return Err(format!("{MISSING}no release is published yet, so it cannot be downloaded"));
    }
    let home = || named("HOME").map(|home| format!("{home}/.cache"));
    let cache = named("XDG_CACHE_HOME").or_else(|| named("LOCALAPPDATA")).or_else(home).ok_or("there is no home folder")?;
    let folder = Path::new(&cache).join("wirebroker").join(format!("wirebroker-runtime-{version}-{platform}"));
    let program = folder.join(executable);
    if !program.exists() {
        if named("WIREBROKER_OFFLINE").as_deref() == Some("1") {
            return Err(format!("{MISSING}WIREBROKER_OFFLINE=1 forbids the download"));
        }
        download(&url.replace("{version}", version).replace("{platform}", &platform), sum, &folder)?;
    }
    Ok(program)
}

fn platform() -> String {
    format!("{OS}-{ARCH}").replace("x86_64", "x64").replace("aarch64", "arm64")
}

/// Fetches an archive, checks its SHA-256, and moves the folder in the archive to its place.
fn download(address: &str, expected: &str, folder: &Path) -> Result<(), String> {
    let fetched = Command::new("curl").args(["-sSfL", address]).output();
    let fetched = fetched.map_err(|why| format!("{MISSING}curl, which would download it, did not start: {why}"))?;
    if !fetched.status.success() {
        return Err(format!("{MISSING}{address}: {}", String::from_utf8_lossy(&fetched.stderr)));
    }
    let sum = Sha256::digest(&fetched.stdout).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    if sum != expected {
        return Err(format!("{address} has the SHA-256 {sum}; {expected:?} was expected"));
    }
    let fresh = folder.with_file_name(format!("fresh-{}", process::id())); // other processes may download at the same time
    unpack(&fetched.stdout, &fresh, folder).map_err(|why| format!("cannot unpack {address}: {why}"))
}

fn unpack(archive: &[u8], fresh: &Path, folder: &Path) -> std::io::Result<()> {
    fs::create_dir_all(fresh)?;
    let mut tar = Command::new("tar").args(["-xzf", "-", "-C"]).arg(fresh).stdin(Stdio::piped()).spawn()?;
    tar.stdin.take().expect("it is a pipe").write_all(archive)?;
    tar.wait()?;
    let moved = fs::rename(fresh.join(folder.file_name().unwrap_or_default()), folder);
    fs::remove_dir_all(fresh)?;
    if folder.exists() {
        return Ok(());
    }
    moved
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    #[test]
    fn the_program_is_looked_for_in_order() {
        let base = std::env::temp_dir().join(format!("wirebroker-find-{}", process::id()));
        let name = format!("wirebroker-runtime-7-{}", platform());
        fs::create_dir_all(base.join(&name)).unwrap();
        fs::write(base.join(&name).join("wirebroker"), "#!/bin/sh\n").unwrap();
        let archive = Command::new("tar").arg("-czf").arg("-").arg("-C").arg(&base).arg(&name).output().unwrap().stdout;
        let cache = base.join("cache").display().to_string();
        let mut environment = HashMap::from([("WIREBROKER", "given".to_owned()), ("XDG_CACHE_HOME", cache)]);
        let found = |environment: &HashMap<&str, String>, url: &str, sum: &str| {
            let release = serde_json::json!({"version": "7", "url": url, "sha256": {platform(): sum}}).to_string();
            find(&|name| environment.get(name).cloned(), &release)
        };
        assert_eq!(found(&environment, "", ""), Ok("given".into()));
        environment.remove("WIREBROKER");
        assert!(found(&environment, "", "").unwrap_err().contains("no release is published yet"));

        let site = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/{{version}}/{{platform}}", site.local_addr().unwrap());
        environment.insert("WIREBROKER_OFFLINE", "1".into());
        assert!(found(&environment, &url, "").unwrap_err().contains("WIREBROKER_OFFLINE=1 forbids the download"));
        environment.remove("WIREBROKER_OFFLINE");
        let sum = Sha256::digest(&archive).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let serving = thread::spawn(move || {
            for _ in 0..2 {
                let (mut stream, _) = site.accept().unwrap();
                std::io::Read::read(&mut stream, &mut [0; 4096]).unwrap();
                write!(stream, "HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n", archive.len()).unwrap();
                stream.write_all(&archive).unwrap();
            }
        });
        assert!(found(&environment, &url, "").unwrap_err().contains("\"\" was expected"));
        let program = found(&environment, &url, &sum).unwrap();
        assert_eq!(fs::read_to_string(&program).unwrap(), "#!/bin/sh\n");
        serving.join().unwrap();
        assert_eq!(found(&environment, &url, &sum), Ok(program)); // the second time it is there

        environment.insert("PATH", base.join(&name).display().to_string());
        assert_eq!(found(&environment, &url, &sum), Ok(base.join(&name).join("wirebroker")));
        fs::remove_dir_all(base).unwrap();
    }
}
