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
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Broker is a running broker. Bootstrap is the address for clients, Control the address of the HTTP control.
type Broker struct {
	Bootstrap, Control, Version string
	given                       bool
	stop                        func()
}

var shared struct {
	sync.Mutex
	broker  *Broker
	options []string
}

// Main runs the tests of a package, for TestMain. The options are flags of `wirebroker serve` for the shared broker.
// A package without such options needs no TestMain: the first Reset starts the broker.
func Main(m *testing.M, options ...string) {
	shared.options = options
	code := m.Run()
	if shared.broker != nil {
		shared.broker.stop()
	}
	os.Exit(code)
}

// Reset empties the package's shared broker, makes sure that it has the topics ("orders" or "orders:3", for 3 partitions),
// and returns it. Clients stay connected. Tests that run in parallel need brokers of their own: see Start.
func Reset(t testing.TB, topics ...string) *Broker {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.broker == nil {
		broker, err := open(shared.options)
		if err != nil {
			t.Fatal(err)
		}
		shared.broker = broker
	}
	return shared.broker.begin(t, topics)
}

// Start starts a broker for this test alone, which ends with the test. The options are flags of `wirebroker serve`.
// If the environment names a running broker, Start empties that one instead: the only options are then --topic NAME.
func Start(t testing.TB, options ...string) *Broker {
	t.Helper()
	broker, err := open(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.stop)
	var topics []string
	for ; broker.given && len(options) > 1 && options[0] == "--topic"; options = options[2:] {
		topics = append(topics, options[1])
	}
	if broker.given && len(options) > 0 {
		t.Skipf("the broker of WIREBROKER_BOOTSTRAP cannot get the options %s", options)
	}
	return broker.begin(t, topics)
}

func (broker *Broker) begin(t testing.TB, topics []string) *Broker {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(broker.report())
		}
	})
	broker.Ask(t, "POST", "/tests", object{"name": t.Name()}, nil)
	for _, topic := range topics {
		name, number, given := strings.Cut(topic, ":")
		wanted := object{"name": name}
		if given {
			partitions, err := strconv.Atoi(number)
			if err != nil {
				t.Fatalf("%q does not name a topic: write \"orders\" or \"orders:3\"", topic)
			}
			wanted["partitions"] = partitions
		}
		if status, err := broker.ask("POST", "/topics", wanted, nil); err != nil && status != http.StatusConflict {
			t.Fatal(err)
		}
	}
	return broker
}

// open attaches to the broker that the environment names, or starts one.
func open(options []string) (*Broker, error) {
	broker := &Broker{Bootstrap: os.Getenv("WIREBROKER_BOOTSTRAP"), Control: os.Getenv("WIREBROKER_CONTROL"), stop: func() {}}
	broker.given = broker.Bootstrap != "" && broker.Control != ""
	if broker.given {
		return broker, nil
	}
	if broker.Bootstrap != broker.Control {
		return nil, errors.New("WIREBROKER_BOOTSTRAP and WIREBROKER_CONTROL name a running broker together; only one of them is set")
	}
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
	broker.stop = func() {
		stdin.Close()
		process.Process.Signal(os.Interrupt)
		process.Wait()
	}
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
	if _, err := broker.ask(method, path, body, result); err != nil {
		t.Fatal(err)
	}
}

func (broker *Broker) ask(method, path string, body, result any) (status int, err error) {
	payload, err := json.Marshal(body)
	if body == nil || err != nil {
		payload = nil
	}
	request, err := http.NewRequest(method, broker.Control+path, bytes.NewReader(payload))
	if err != nil {
		return 0, err
	}
	shown, wantsText := result.(*string)
	if wantsText {
		request.Header.Set("Accept", "text/plain")
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if response.StatusCode >= 400 {
		var problem struct{ Detail string }
		json.Unmarshal(text, &problem)
		return response.StatusCode, errors.New(problem.Detail)
	}
	if wantsText {
		*shown = string(text)
	} else if err == nil && result != nil {
		err = json.Unmarshal(text, result)
	}
	return response.StatusCode, err
}

// report returns what the broker has seen since the test began, as text.
func (broker *Broker) report() (text string) {
	if _, err := broker.ask("GET", "/report", nil, &text); err != nil {
		return "wirebroker gave no report: " + err.Error()
	}
	return text
}
