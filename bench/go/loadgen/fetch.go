package main

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"time"
)

// fetcher reads one partition from its beginning to its end, again and again, one Fetch at a time.
type fetcher struct {
	options     Options
	producer    *producer
	topicID     []byte
	partition   int
	buffer      []byte
	correlation int
	offset      int64
	end         int64

	bytes     int64
	latencies []uint32
}

func newFetcher(o Options, p *producer, topicID []byte, partition int) *fetcher {
	p.options.Warmup = (o.FillBytes + p.shape.size() - 1) / p.shape.size()
	return &fetcher{options: o, producer: p, topicID: topicID, partition: partition, latencies: make([]uint32, 0, 1<<16)}
}

// prepare fills the partition and reads it once, checking every batch's CRC.
func (f *fetcher) prepare() error {
	if err := f.producer.prepare(); err != nil {
		return err
	}
	f.end = int64(f.producer.answered) * int64(f.producer.shape.records)
	for {
		if err := f.fetch(true); err != nil {
			return err
		}
		if f.offset == 0 {
			break
		}
	}
	f.bytes, f.latencies = 0, f.latencies[:0]
	return nil
}

func (f *fetcher) measure(until time.Time) error {
	most := f.options.Requests / f.options.Connections
	for time.Now().Before(until) && (f.options.Requests == 0 || len(f.latencies) < most) {
		if err := f.fetch(false); err != nil {
			return err
		}
	}
	return nil
}

func (f *fetcher) result() measured { return measured{len(f.latencies), f.bytes, f.latencies} }

// fetch requests the next batches, and advances to the offset after them. At the end of the log, it begins again.
func (f *fetcher) fetch(verify bool) error {
	f.correlation++
	start := time.Now()
	if _, err := f.producer.conn.Write(f.request()); err != nil {
		return err
	}
	answer, err := f.read()
	if err != nil {
		return fmt.Errorf("Fetch: %w", err)
	}
	f.latencies = append(f.latencies, uint32(time.Since(start)))
	records, err := f.records(answer)
	if err != nil {
		return fmt.Errorf("Fetch from offset %d: %w", f.offset, err)
	}
	f.bytes += int64(len(records))
	if err := f.advance(records, verify); err != nil {
		return fmt.Errorf("Fetch: %w", err)
	}
	if f.offset >= f.end {
		f.offset = 0
	}
	return nil
}

func (f *fetcher) request() []byte {
	version := f.options.FetchVersion
	flexible := version >= fetchFlexibleFrom
	w := request(keyFetch, version, f.correlation, flexible)
	if version < fetchNoReplicaFrom {
		w.i32(-1)
	}
	w.i32(500) // max_wait_ms
	w.i32(1)   // min_bytes
	w.i32(int32(f.options.FetchBytes))
	w.i8(0)   // isolation level
	w.i32(0)  // session id
	w.i32(-1) // session epoch: no session
	w.count(1, flexible)
	if version >= fetchTopicIDFrom {
		w.bytes(f.topicID)
	} else {
		w.str(f.options.Topic, flexible)
	}
	w.count(1, flexible)
	w.i32(int32(f.partition))
	w.i32(-1) // current leader epoch
	w.i64(f.offset)
	if flexible {
		w.i32(-1) // last fetched epoch
	}
	w.i64(-1) // log start offset
	w.i32(int32(f.options.FetchBytes))
	if flexible {
		w.tags()
		w.tags()
	}
	w.count(0, flexible) // forgotten topics
	w.str("", flexible)  // rack
	if flexible {
		w.tags()
	}
	w.setSize(0)
	return w
}

// read reads one whole response.
func (f *fetcher) read() ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(f.producer.conn, size[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint32(size[:]))
	if n > len(f.buffer) {
		f.buffer = make([]byte, n+n/4)
	}
	_, err := io.ReadFull(f.producer.conn, f.buffer[:n])
	return f.buffer[:n], err
}

// records are the records in the response, which has only the requested partition.
func (f *fetcher) records(answer []byte) ([]byte, error) {
	version := f.options.FetchVersion
	flexible := version >= fetchFlexibleFrom
	r := reader{data: answer}
	correlation := r.i32()
	if flexible {
		r.tags()
	}
	r.i32() // throttle time
	code := r.i16()
	r.i32() // session id
	topics := r.count(flexible)
	if version >= fetchTopicIDFrom {
		r.take(16)
	} else {
		r.str(flexible)
	}
	partitions, index := r.count(flexible), r.i32()
	partitionCode, highWatermark := r.i16(), r.i64()
	r.i64() // last stable offset
	r.i64() // log start offset
	aborted := r.count(flexible)
	r.i32() // preferred read replica
	records := r.take(r.count(flexible))
	switch {
	case r.err != nil:
		return nil, r.err
	case code != 0 || partitionCode != 0:
		return nil, fmt.Errorf("error %d, of the partition %d", code, partitionCode)
	case int(correlation) != f.correlation || topics != 1 || partitions != 1 || int(index) != f.partition || aborted > 0:
		return nil, fmt.Errorf("an unexpected answer: % x", answer[:min(len(answer), 80)])
	case highWatermark != f.end:
		return nil, fmt.Errorf("high watermark %d, expected %d", highWatermark, f.end)
	case len(records) == 0:
		return nil, fmt.Errorf("no records")
	}
	return records, nil
}

// advance moves the offset past the batches, which must follow each other without a gap.
func (f *fetcher) advance(records []byte, verify bool) error {
	for len(records) >= batchHeaderSize {
		base := int64(binary.BigEndian.Uint64(records))
		size := 12 + int(binary.BigEndian.Uint32(records[8:]))
		if base != f.offset || size < batchHeaderSize {
			return fmt.Errorf("a batch of %d bytes at offset %d, expected at %d", size, base, f.offset)
		}
		if size > len(records) {
			return nil // the last batch of a response may be cut off
		}
		if verify && crc32.Checksum(records[crcStart:size], castagnoli) != binary.BigEndian.Uint32(records[crcAt:]) {
			return fmt.Errorf("the batch at offset %d has a wrong CRC", base)
		}
		f.offset += int64(binary.BigEndian.Uint32(records[lastDeltaAt:])) + 1
		records = records[size:]
	}
	return nil
}
