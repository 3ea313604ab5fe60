package orders

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Wirebroker is a broker for one test.
type Wirebroker struct {
	Bootstrap, control string
}

// StartWirebroker starts a broker on free ports; it stops when the test ends.
func StartWirebroker(t *testing.T, options ...string) *Wirebroker {
	t.Helper()
	program := os.Getenv("WIREBROKER")
	if program == "" {
		program = "wirebroker"
	}
	flags := []string{"serve", "--port", "0", "--control", "0", "--exit-with-parent"}
	process := exec.Command(program, append(flags, options...)...)
	process.Stderr = os.Stderr
	if _, err := process.StdinPipe(); err != nil { // its end tells wirebroker that this process has ended
		t.Fatal(err)
	}
	stdout, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatalf("%v; install it with `pip install './wirebroker[control]'`, or name it in WIREBROKER", err)
	}
	t.Cleanup(func() {
		process.Process.Signal(os.Interrupt)
		process.Wait()
	})
	broker := &Wirebroker{}
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		words := strings.Fields(lines.Text())
		switch words[0] {
		case "listening":
			broker.Bootstrap = words[2]
		case "control":
			broker.control = words[2]
		case "ready":
			return broker
		}
	}
	t.Fatal("wirebroker did not start")
	return nil
}

// Ask calls the control and reads its response into result. An error of the control fails the test.
func (broker *Wirebroker) Ask(t *testing.T, method, path string, body, result any) {
	t.Helper()
	payload := &bytes.Buffer{}
	if body != nil {
		if err := json.NewEncoder(payload).Encode(body); err != nil {
			t.Fatal(err)
		}
	}
	request, err := http.NewRequest(method, broker.control+path, payload)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode >= 400 {
		var problem struct{ Detail string }
		json.NewDecoder(response.Body).Decode(&problem)
		t.Fatal(problem.Detail)
	}
	if err := json.NewDecoder(response.Body).Decode(result); err != nil {
		t.Fatal(err)
	}
}
