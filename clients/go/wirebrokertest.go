// Package wirebrokertest gives Go tests a Kafka broker that speaks the real protocol and fails on demand.
package wirebrokertest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
)

// Broker is a running broker. Bootstrap is the address for clients, and Control is the address of the HTTP control.
type Broker struct {
	Bootstrap, Control, Version string
	stop                        func()
}

var shared struct {
	sync.Mutex
	broker  *Broker
	options []string
}

// Main runs the tests of a package, for TestMain. The options are flags of `wirebroker serve` for the shared broker.
// A package without such options needs no TestMain: the first Reset finds or starts the broker.
func Main(m *testing.M, options ...string) {
	shared.options = options
	os.Exit(m.Run()) // the broker ends with the process
}

// Reset empties the package's shared broker, makes sure that it has the topics ("orders" or "orders:3", for 3 partitions),
// and returns it. Clients stay connected. Tests that run in parallel need brokers of their own: see Start.
// The shared broker is the running broker that the environment names, unless Main has options.
func Reset(t testing.TB, topics ...string) *Broker {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.broker == nil {
		broker, err := common(shared.options)
		if err != nil {
			t.Fatal(err)
		}
		shared.broker = broker
	}
	return shared.broker.begin(t, topics)
}

// Start starts a broker for this test alone. The broker ends with the test. The options are flags of `wirebroker serve`.
func Start(t testing.TB, options ...string) *Broker {
	t.Helper()
	broker, err := open(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.stop)
	return broker.begin(t, nil)
}

func (broker *Broker) begin(t testing.TB, topics []string) *Broker {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() || bytes.Contains(debug.Stack(), []byte("\npanic(")) { // a test that panics has not failed yet
			t.Log(broker.report())
		}
	})
	broker.Ask(t, "POST", "/tests", object{"name": t.Name(), "topics": append([]string{}, topics...)}, nil)
	return broker
}

// common attaches to the broker that the environment names. It starts a broker if there is none, or if there are options.
func common(options []string) (*Broker, error) {
	given := &Broker{Bootstrap: os.Getenv("WIREBROKER_BOOTSTRAP"), Control: os.Getenv("WIREBROKER_CONTROL")}
	if (given.Bootstrap == "") != (given.Control == "") {
		return nil, errors.New("WIREBROKER_BOOTSTRAP and WIREBROKER_CONTROL name a running broker together; only one of them is set")
	}
	if given.Bootstrap == "" || len(options) > 0 {
		return open(options)
	}
	return given, nil
}

// open starts a broker.
func open(options []string) (*Broker, error) {
	program, err := find()
	if err != nil {
		return nil, err
	}
	flags := []string{"serve", "--port", "0", "--control", "0", "--ready", "json", "--exit-with-parent"}
	process := exec.Command(program, append(flags, options...)...)
	messages := &bytes.Buffer{} // read only when the process has ended
	process.Stderr = messages
	stdin, err := process.StdinPipe() // the broker stops when its stdin ends, that is, when this process ends
	if err != nil {
		return nil, err
	}
	stdout, err := process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := process.Start(); err != nil {
		return nil, err
	}
	broker := &Broker{stop: func() {
		stdin.Close()
		process.Wait()
	}}
	if err := json.NewDecoder(stdout).Decode(broker); err != nil {
		broker.stop()
		return nil, fmt.Errorf("%s %s did not start: %s", program, strings.Join(process.Args[1:], " "), messages)
	}
	return broker, nil
}

// Ask calls the control and reads its JSON into result, which may be nil. A problem fails the test.
// Package wirebrokertest has methods for what most tests need; docs/reference/control.md lists all endpoints.
func (broker *Broker) Ask(t testing.TB, method, path string, body, result any) {
	t.Helper()
	if err := broker.ask(method, path, body, result); err != nil {
		t.Fatal(err)
	}
}

func (broker *Broker) ask(method, path string, body, result any) error {
	var payload io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		payload = bytes.NewReader(text)
	}
	request, err := http.NewRequest(method, broker.Control+path, payload)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= 400 {
		var problem struct{ Detail string }
		json.NewDecoder(response.Body).Decode(&problem)
		return errors.New(problem.Detail + broker.age(problem.Detail))
	}
	if result == nil {
		result = &object{}
	}
	return json.NewDecoder(response.Body).Decode(result)
}

// age names the versions of the broker and the package if the broker lacks a path: an older broker has fewer paths.
func (broker *Broker) age(problem string) string {
	var document struct{ Info struct{ Version string } }
	if !strings.HasPrefix(problem, "there is nothing at ") || broker.ask("GET", "/openapi.json", nil, &document) != nil {
		return ""
	}
	return fmt.Sprintf("; the broker is wirebroker %s, and this library belongs to wirebroker %s: if the broker is older, "+
		"install the library's version, or set WIREBROKER to its program", document.Info.Version, pinned.Version)
}

// report returns the broker's report as text: what happened since the test began.
func (broker *Broker) report() string {
	var seen struct{ Text string }
	if err := broker.ask("GET", "/report", nil, &seen); err != nil {
		return "wirebroker gave no report: " + err.Error()
	}
	return seen.Text
}
