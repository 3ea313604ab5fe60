package wirebrokertest

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

//go:embed release.json
var release []byte

// pinned is the release that find downloads: a URL with {version} and {platform}, and the SHA-256 of each platform's archive.
var pinned struct {
	Version, URL string
	SHA256       map[string]string
}

func init() { json.Unmarshal(release, &pinned) }

const missing = "there is no wirebroker: put `wirebroker` on the PATH, or set WIREBROKER to the program; "

// find returns the path of the program: the variable WIREBROKER, else `wirebroker` on the PATH, else the pinned download in the
// user's cache.
func find() (string, error) {
	if program := os.Getenv("WIREBROKER"); program != "" {
		return program, nil
	}
	if program, err := exec.LookPath("wirebroker"); err == nil {
		return program, nil
	}
	if pinned.URL == "" {
		return "", errors.New(missing + "no release is published yet, so it cannot be downloaded")
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	folder := filepath.Join(cache, "wirebroker", "wirebroker-runtime-"+pinned.Version+"-"+platform())
	program := filepath.Join(folder, "wirebroker")
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	if os.Getenv("WIREBROKER_OFFLINE") == "1" {
		return "", errors.New(missing + "WIREBROKER_OFFLINE=1 forbids the download")
	}
	address := strings.NewReplacer("{version}", pinned.Version, "{platform}", platform()).Replace(pinned.URL)
	return program, download(address, pinned.SHA256[platform()], folder)
}

func platform() string {
	return strings.NewReplacer("darwin", "macos", "amd64", "x64").Replace(runtime.GOOS + "-" + runtime.GOARCH)
}

// download fetches an archive, checks its SHA-256, and moves the folder in the archive to its place.
func download(address, expected, folder string) error {
	response, err := http.Get(address)
	if err != nil {
		return errors.New(missing + err.Error())
	}
	defer response.Body.Close()
	archive, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return fmt.Errorf("%sthe download of %s ended with %s", missing, address, response.Status)
	}
	if sum := fmt.Sprintf("%x", sha256.Sum256(archive)); sum != expected {
		return fmt.Errorf("the download of %s has the SHA-256 %q; %q was expected", address, sum, expected)
	}
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		return err
	}
	fresh, err := os.MkdirTemp(filepath.Dir(folder), "fresh-") // other processes may download at the same time
	if err != nil {
		return err
	}
	defer os.RemoveAll(fresh)
	unpack := exec.Command("tar", "-xzf", "-", "-C", fresh)
	unpack.Stdin = bytes.NewReader(archive)
	if told, err := unpack.CombinedOutput(); err != nil {
		return fmt.Errorf("tar could not unpack %s: %w: %s", address, err, told)
	}
	err = os.Rename(filepath.Join(fresh, filepath.Base(folder)), folder)
	if _, there := os.Stat(folder); there == nil {
		return nil
	}
	return err
}
