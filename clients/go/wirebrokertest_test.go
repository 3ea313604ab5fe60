package wirebrokertest

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestEveryKindOfFaultIsAccepted(t *testing.T) {
	broker := Reset(t)
	on, partition := On{}, 0
	second := time.Second
	for _, fault := range []Fault{
		LoseRequest(on), LoseAck(on).With("then", "silence"), Error("NOT_LEADER_OR_FOLLOWER", on).After(), Delay(second, on).After(),
		Disconnect(on).After(), Throttle(second, on), Reorder(2, on), Observe(on), Cut(10, on), Slice(7, on), Bandwidth(1000, on),
		Corrupt(2, on), ResetConnection(on).After(), Refuse(on), Close(on), FailWrite(on), SlowWrite(second, on), DiskFull(on),
		CrashAfterWrite(on), ExpireProducer(on), ExpireSession(on), WithdrawACL("allow User:alice WRITE TOPIC orders", on),
		ExpireTransactionalID("till", on), Fence("till", on), SlowReassignment(second, on), ExpireMember(on), MoveLeader(on),
		MoveCoordinator(on), AdvanceClock(second, on), Restart(on), Upgrade("kafka-4.4", on),
		Truncate(4, On{Topic: "orders", Partition: &partition}), LoseCoordinator(on), StallHandshake(on), ExpireCertificate(on),
	} {
		broker.AddFault(t, fault.With("nth", 1000))
	}
	broker.AddFault(t, Observe(On{API: "Produce", Topic: "orders", Partition: &partition, TransactionalID: "till",
		ClientID: "app", Principal: "User:alice", Node: 1, Every: 1000, Times: 3}))
	broker.AddFault(t, Observe(On{API: "OffsetCommit", Group: "team", Probability: 0.5}))
}

func TestRecordsOfEveryForm(t *testing.T) {
	broker := Reset(t, "orders:2")
	one := 1
	headers := map[string]any{"text": "a", "bytes": Data{0xff}, "json": JSON(7)}
	broker.Produce(t, "orders", Record{Key: "k", Value: "v", Headers: headers, Partition: &one},
		Record{Value: Data{0, 0xff}}, Record{Key: JSON([]int{1}), Value: Null, Timestamp: 1_700_000_000_000})
	broker.AssertRecords(t, "orders", Record{Key: "k", Value: Regex("^v$"), Headers: headers, Partition: &one},
		Record{Key: Null, Value: Data{0, 0xff}}, Record{Key: "[1]", Value: Null})
	stored := broker.Records(t, "orders")
	if len(stored) != 3 || stored[0].Key != nil || !bytes.Equal(stored[0].Value, []byte{0, 0xff}) || stored[1].Value != nil ||
		stored[1].Timestamp != 1_700_000_000_000 || len(stored[2].Headers) != 3 {
		t.Fatal(stored)
	}
	err := broker.ask("POST", "/topics/orders/records/assert", object{"records": []Record{}, "timeout": 0}, nil)
	if err == nil || !strings.Contains(err.Error(), "0 expected, 3 found") {
		t.Fatal(err)
	}
}

func TestAGivenBrokerIsTheSharedOne(t *testing.T) {
	given := Start(t, "--topic", "orders:3")
	t.Setenv("WIREBROKER_BOOTSTRAP", given.Bootstrap)
	t.Setenv("WIREBROKER_CONTROL", given.Control)
	if own := Start(t, "--topic", "orders"); own.Bootstrap == given.Bootstrap {
		t.Error("a test's own broker is the given one")
	}
	given.Produce(t, "orders", Record{Value: "of an earlier test"})
	was := shared.broker
	defer func() { shared.broker, shared.options = was, nil }()
	for _, options := range [][]string{nil, {"--brokers", "2"}} { // a given broker cannot get options
		shared.broker, shared.options = nil, options
		if isGiven := Reset(t, "payments").Bootstrap == given.Bootstrap; isGiven != (options == nil) {
			t.Error(options, isGiven)
		}
	}
	shared.broker.stop()
	given.AssertRecords(t, "orders")
	given.Ask(t, "GET", "/topics/payments", nil, nil)
	t.Setenv("WIREBROKER_CONTROL", "")
	if _, err := common(nil); err == nil || !strings.Contains(err.Error(), "only one of them is set") {
		t.Fatal(err)
	}
}

func TestABrokerThatLacksAPathTellsItsVersion(t *testing.T) {
	err := Reset(t).ask("POST", "/of-a-later-release", nil, nil)
	if err == nil || !regexp.MustCompile(`nothing at /of-a-later-release;.* is wirebroker [\d.]+, .* to wirebroker [\d.]+: if`).MatchString(err.Error()) {
		t.Fatal(err)
	}
}

func TestAProgramThatDoesNotStartSaysWhy(t *testing.T) {
	if _, err := open([]string{"--brokers", "none"}); err == nil || !strings.Contains(err.Error(), "'none' is not a whole number") {
		t.Fatal(err)
	}
}

// TestAFailedTestShowsTheReport runs a test in processes of its own.
func TestAFailedTestShowsTheReport(t *testing.T) {
	if ending := os.Getenv("WIREBROKER_ENDING"); ending != "" {
		broker := Reset(t, "orders:3")
		broker.Produce(t, "orders", Record{Value: "a pound of tea"})
		switch ending {
		case "fail":
			t.FailNow()
		case "panic":
			panic("on purpose")
		}
		return
	}
	for ending, reports := range map[string]int{"pass": 0, "fail": 1, "panic": 1} {
		run := exec.Command(os.Args[0], "-test.run", t.Name(), "-test.v")
		run.Env = append(os.Environ(), "WIREBROKER_ENDING="+ending)
		told, _ := run.CombinedOutput()
		if strings.Count(string(told), "committed key null  value 'a pound of tea'") != reports {
			t.Error(ending, string(told))
		}
	}
}

func TestTheProgramIsLookedForInOrder(t *testing.T) {
	t.Setenv("WIREBROKER", "given")
	if program, err := find(); program != "given" || err != nil {
		t.Fatal(program, err)
	}
	t.Setenv("WIREBROKER", "")
	if _, err := exec.LookPath("tar"); err != nil {
		t.Skip(err)
	}
	tools := t.TempDir() // a PATH without wirebroker
	for _, name := range []string{"tar", "gzip"} {
		path, _ := exec.LookPath(name)
		os.Symlink(path, filepath.Join(tools, name))
	}
	t.Setenv("PATH", tools)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	expect := func(words string) {
		t.Helper()
		if _, err := find(); err == nil || !strings.Contains(err.Error(), words) {
			t.Fatal(err)
		}
	}
	expect("no release is published yet")

	archive := packed(t)
	site := httptest.NewServer(http.HandlerFunc(func(response http.ResponseWriter, _ *http.Request) { response.Write(archive) }))
	defer site.Close()
	was := pinned
	defer func() { pinned = was }()
	pin := func(sum string) {
		pinned.Version, pinned.URL = "7", site.URL+"/{version}/{platform}"
		pinned.SHA256 = map[string]string{platform(): sum}
	}
	pin("")
	t.Setenv("WIREBROKER_OFFLINE", "1")
	expect("WIREBROKER_OFFLINE=1 forbids the download")
	t.Setenv("WIREBROKER_OFFLINE", "")
	expect("was expected")
	pin(fmt.Sprintf("%x", sha256.Sum256(archive)))
	program, err := find()
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(program); string(text) != "#!/bin/sh\n" || err != nil {
		t.Fatal(string(text), err)
	}
	site.Close() // the second time it is there
	if again, err := find(); again != program || err != nil {
		t.Fatal(again, err)
	}
}

// packed returns an archive with the folder of a release of this platform.
func packed(t *testing.T) []byte {
	t.Helper()
	folder := "wirebroker-runtime-7-" + platform()
	base := t.TempDir()
	os.Mkdir(filepath.Join(base, folder), 0o755)
	os.WriteFile(filepath.Join(base, folder, "wirebroker"), []byte("#!/bin/sh\n"), 0o755)
	archive, err := exec.Command("tar", "-czf", "-", "-C", base, folder).Output()
	if err != nil {
		t.Fatal(err)
	}
	return archive
}
