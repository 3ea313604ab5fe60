package orders

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type object = map[string]any

// By default franz-go asks for metadata at most every 5 s, and a retry after a lost connection waits for them.
var soon = kgo.MetadataMinAge(100 * time.Millisecond)

// TestAnOrderIsSent is what `wirebroker explore` runs.
func TestAnOrderIsSent(t *testing.T) {
	bootstrap := os.Getenv("BOOTSTRAP_SERVERS")
	if bootstrap == "" {
		t.Skip("wirebroker explore sets BOOTSTRAP_SERVERS")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := SendOrder(ctx, bootstrap, "order-1", "a pound of tea", soon); err != nil {
		t.Fatal(err)
	}
}

func TestALostAcknowledgementDoublesNothing(t *testing.T) {
	broker := StartWirebroker(t, "--topic", "orders:3")
	var lost struct{ ID int }
	broker.Ask(t, "POST", "/faults", object{"kind": "lose_ack", "api": "Produce", "topic": "orders", "nth": 1}, &lost)

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := SendOrder(ctx, broker.Bootstrap, "order-1", "a pound of tea", soon); err != nil {
		t.Fatal(err)
	}

	broker.Ask(t, "GET", fmt.Sprintf("/faults/%d/assert-fired", lost.ID), nil, &object{})
	var seen struct{ Verdicts []struct{ Verdict string } }
	broker.Ask(t, "GET", "/verdicts?topic=orders", nil, &seen)
	if fmt.Sprint(seen.Verdicts) != "[{accepted} {duplicate}]" {
		t.Fatal(seen.Verdicts)
	}
	var audit struct {
		Findings []struct{ Explanation string }
	}
	intended := []object{{"topic": "orders", "key": "order-1", "value": "a pound of tea"}}
	broker.Ask(t, "POST", "/audit", object{"intended": intended}, &audit)
	if len(audit.Findings) != 0 {
		t.Fatal(audit.Findings)
	}
}
