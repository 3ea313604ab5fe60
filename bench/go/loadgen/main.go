// Command loadgen puts load on one Kafka broker over raw sockets and prints what it measured as one line of JSON.
//
// Produce: every connection is an idempotent producer with a partition of its own. Batches have a real CRC-32C, sequences
// without gaps, and the time of sending. The generator checks the error code and base offset of every response. Fetch: every
// connection first fills its partition, and then reads the whole partition repeatedly. The batches must follow each other
// without a gap, and in the first round their CRCs must be right. Handshake: every worker connects, sends ApiVersions, closes,
// and begins again. Anything unexpected ends the run.
//
// The server's CPU time in the measured period is read from /proc by the server's process id (Linux).
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

// Options are the options of a run.
type Options struct {
	Address      string
	Topic        string
	Mode         string
	BatchBytes   int
	Records      int
	RecordBytes  int
	Varied       bool
	Connections  int
	InFlight     int
	Seconds      float64
	Requests     int
	Warmup       int
	Version      int
	FetchVersion int
	FetchBytes   int
	FillBytes    int
	Pid          int
	ReserveMB    int
	TLS          bool
}

func parseOptions() Options {
	var o Options
	flag.StringVar(&o.Address, "address", "127.0.0.1:9092", "host:port of the broker")
	flag.StringVar(&o.Topic, "topic", "bench", "topic to create; it must not exist")
	flag.StringVar(&o.Mode, "mode", "produce", "produce, fetch or handshake")
	flag.IntVar(&o.BatchBytes, "bytes", 1024, "most bytes of a batch, header included")
	flag.IntVar(&o.Records, "records", 16, "records in a batch")
	flag.IntVar(&o.RecordBytes, "record-bytes", 0, "bytes of each record's value, instead of -bytes")
	flag.BoolVar(&o.Varied, "varied", false, "records of different sizes and timestamps, every second one with a key")
	flag.IntVar(&o.Connections, "connections", 1, "connections, each with a partition of its own")
	flag.IntVar(&o.InFlight, "inflight", 5, "unanswered Produce requests of a connection (at most 5 are idempotent)")
	flag.Float64Var(&o.Seconds, "seconds", 1, "longest measured time")
	flag.IntVar(&o.Requests, "requests", 0, "most measured requests of all connections together; 0 is no limit")
	flag.IntVar(&o.Warmup, "warmup", 200, "requests of each connection before the measured ones (Produce only)")
	flag.IntVar(&o.Version, "version", 9, "version of Produce, 5 to 13")
	flag.IntVar(&o.FetchVersion, "fetch-version", 12, "version of Fetch, 11 to 18")
	flag.IntVar(&o.FetchBytes, "max-bytes", 1<<20, "max_bytes of a Fetch")
	flag.IntVar(&o.FillBytes, "fill", 64<<20, "bytes that each partition is filled with before fetching")
	flag.IntVar(&o.Pid, "pid", 0, "process id of the server, for its CPU time")
	flag.IntVar(&o.ReserveMB, "reserve", 0, "megabytes of memory to have ready for the server when the measured time begins")
	flag.BoolVar(&o.TLS, "tls", false, "speak TLS, and believe any certificate")
	flag.Parse()
	return o
}

func (o Options) check() error {
	switch {
	case o.Mode != "produce" && o.Mode != "fetch" && o.Mode != "handshake":
		return fmt.Errorf("-mode is produce, fetch or handshake, not %q", o.Mode)
	case o.Version < 5 || o.Version > 13:
		return fmt.Errorf("Produce version %d is none of 5 to 13", o.Version)
	case o.FetchVersion < 11 || o.FetchVersion > 18:
		return fmt.Errorf("Fetch version %d is none of 11 to 18", o.FetchVersion)
	case o.Connections < 1 || o.Connections > 1024 || o.InFlight < 1 || o.InFlight > 5:
		return fmt.Errorf("1 to 1024 connections with 1 to 5 requests in flight")
	case o.Records < 1 || (o.RecordBytes == 0 && o.BatchBytes < batchHeaderSize+16*o.Records):
		return fmt.Errorf("%d records do not fit into a batch of %d bytes", o.Records, o.BatchBytes)
	case len(o.Topic) < 1 || len(o.Topic) > 100:
		return fmt.Errorf("a topic of 1 to 100 characters")
	}
	return nil
}

// Report is the output of a run. Times of a request are in microseconds.
type Report struct {
	Mode              string  `json:"mode"`
	Version           int     `json:"version"`
	Connections       int     `json:"connections"`
	Varied            bool    `json:"varied"`
	BatchBytes        int     `json:"batch_bytes"`
	Requests          int     `json:"requests"`
	Seconds           float64 `json:"seconds"`
	RequestsPerSecond float64 `json:"requests_per_second"`
	MegabytesPerSec   float64 `json:"megabytes_per_second"`
	P50               float64 `json:"p50_us"`
	P99               float64 `json:"p99_us"`
	ServerCPU         float64 `json:"server_cpu_us_per_request"`
	ServerCPUPerMB    float64 `json:"server_cpu_us_per_megabyte"`
	OwnCPU            float64 `json:"generator_cpu_us_per_request"`
}

// A worker does the work of one connection in a run.
type worker interface {
	prepare() error
	measure(until time.Time) error
	result() measured
}

type measured struct {
	requests  int
	bytes     int64
	latencies []uint32 // ns
}

func main() {
	o := parseOptions()
	if err := o.check(); err != nil {
		fmt.Fprintln(os.Stderr, "loadgen:", err)
		os.Exit(2)
	}
	debug.SetGCPercent(400)
	if o.Connections == 1 {
		runtime.GOMAXPROCS(1) // there is one loop: a second thread would only alternate with it
	}
	report, err := run(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "loadgen:", err)
		os.Exit(1)
	}
	line, _ := json.Marshal(report)
	fmt.Println(string(line))
}

func run(o Options) (Report, error) {
	topicID, err := createTopic(o)
	if err != nil {
		return Report{}, err
	}
	shape := newBatchShape(o)
	workers := make([]worker, o.Connections)
	for i := range workers {
		producer := newProducer(o, shape, topicID, i)
		workers[i] = producer
		switch o.Mode {
		case "fetch":
			workers[i] = newFetcher(o, producer, topicID, i)
		case "handshake":
			workers[i] = &greeter{options: o}
		}
	}
	if err := together(workers, worker.prepare); err != nil {
		return Report{}, err
	}
	runtime.GC()
	reserve(o.ReserveMB)
	own, server := processCPU(os.Getpid()), processCPU(o.Pid)
	start := time.Now()
	until := start.Add(time.Duration(o.Seconds * float64(time.Second)))
	if err := together(workers, func(w worker) error { return w.measure(until) }); err != nil {
		return Report{}, err
	}
	seconds := time.Since(start).Seconds()
	return summary(o, shape, workers, seconds, processCPU(o.Pid)-server, processCPU(os.Getpid())-own), nil
}

func together(workers []worker, step func(worker) error) error {
	errors := make([]error, len(workers))
	var all sync.WaitGroup
	for i := range workers {
		all.Add(1)
		go func(i int) {
			defer all.Done()
			errors[i] = step(workers[i])
		}(i)
	}
	all.Wait()
	for _, err := range errors {
		if err != nil {
			return err
		}
	}
	return nil
}

func summary(o Options, shape *batchShape, workers []worker, seconds float64, server, own time.Duration) Report {
	var total measured
	for _, w := range workers {
		r := w.result()
		total.requests += r.requests
		total.bytes += r.bytes
		total.latencies = append(total.latencies, r.latencies...)
	}
	requests, megabytes := float64(total.requests), float64(total.bytes)/1e6
	perMB := 0.0 // handshakes transfer no records
	if megabytes > 0 {
		perMB = float64(server.Nanoseconds()) / 1e3 / megabytes
	}
	version := o.Version
	if o.Mode == "fetch" {
		version = o.FetchVersion
	}
	return Report{
		Mode: o.Mode, Version: version, Connections: o.Connections, Varied: o.Varied, BatchBytes: shape.size(),
		Requests: total.requests, Seconds: seconds,
		RequestsPerSecond: requests / seconds, MegabytesPerSec: megabytes / seconds,
		P50: percentile(total.latencies, 0.50), P99: percentile(total.latencies, 0.99),
		ServerCPU:      float64(server.Nanoseconds()) / 1e3 / requests,
		ServerCPUPerMB: perMB,
		OwnCPU:         float64(own.Nanoseconds()) / 1e3 / requests,
	}
}
