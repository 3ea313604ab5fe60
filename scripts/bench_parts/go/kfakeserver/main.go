// Command kfakeserver serves franz-go's kfake with one broker on a loopback port, so that it can be measured as a
// process of its own. It prints where it listens and then "ready", as `wirebroker serve` does.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	port := flag.Int("port", 0, "port to listen on; 0 is any free one")
	flag.Parse()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(*port))
	if err != nil {
		fmt.Fprintln(os.Stderr, "kfakeserver:", err)
		os.Exit(2)
	}
	defer cluster.Close()
	for _, address := range cluster.ListenAddrs() {
		fmt.Printf("listening on %s (node 0)\n", address)
	}
	fmt.Println("ready")
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	<-stop
}
