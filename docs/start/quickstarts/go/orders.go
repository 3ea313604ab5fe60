// Package orders is the code under test.
package orders

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
)

func SendOrder(ctx context.Context, bootstrap, id, order string, options ...kgo.Opt) error {
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(bootstrap))...)
	if err != nil {
		return err
	}
	defer client.Close()
	record := &kgo.Record{Topic: "orders", Key: []byte(id), Value: []byte(order)}
	return client.ProduceSync(ctx, record).FirstErr()
}
