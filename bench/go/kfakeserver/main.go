// Command kfakeserver serves franz-go's kfake with one broker on a loopback port, so that it can be measured as a
// process of its own. It prints where it listens and then "ready", as `wirebroker serve` does.
package main

import (
	"crypto/tls"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	port := flag.Int("port", 0, "port to listen on; 0 is any free one")
	pair := flag.String("tls", "", "file with a key and its certificates, to speak TLS")
	flag.Parse()
	options := []kfake.Opt{kfake.NumBrokers(1), kfake.Ports(*port)}
	if *pair != "" {
		certificate, err := tls.LoadX509KeyPair(*pair, *pair)
		if err != nil {
			fmt.Fprintln(os.Stderr, "kfakeserver:", err)
			os.Exit(2)
		}
		options = append(options, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{certificate}}))
	}
	cluster, err := kfake.NewCluster(options...)
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
