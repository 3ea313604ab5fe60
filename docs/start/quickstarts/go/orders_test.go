package orders

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"wirebrokertest"
)

// By default franz-go asks for metadata at most every 5 s, and a retry after a lost connection waits for the metadata.
var soon = kgo.MetadataMinAge(100 * time.Millisecond)

func TestALostAcknowledgementDoublesNothing(t *testing.T) {
	broker := wirebrokertest.Reset(t, "orders:3")
	lost := broker.AddFault(t, wirebrokertest.LoseAck(wirebrokertest.On{API: "Produce", Topic: "orders", Nth: 1}))

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := SendOrder(ctx, broker.Bootstrap, "order-1", "a pound of tea", soon); err != nil {
		t.Fatal(err)
	}

	lost.AssertFired(t)
	if verdicts := broker.Verdicts(t, "orders"); !slices.Equal(verdicts, []string{"accepted", "duplicate"}) {
		t.Fatal(verdicts)
	}
	broker.AssertRecords(t, "orders", wirebrokertest.Record{Key: "order-1", Value: "a pound of tea"})
}
