package main

import (
	"encoding/binary"
	"fmt"
	"net"
	"time"
)

// producer keeps up to five Produce requests in flight on one connection. One loop writes and reads: with one write it sends
// all requests that may be in flight, and then it reads the responses that have arrived.
type producer struct {
	options   Options
	shape     *batchShape
	partition int
	topicID   []byte
	conn      net.Conn

	prefix   []byte // the request up to the records
	tail     []byte // the bytes after the records
	slots    [][]byte
	sentAt   [8]time.Time
	answers  []byte
	filled   int
	answered int
	sent     int

	latencies []uint32
	started   int
}

func newProducer(o Options, shape *batchShape, topicID []byte, partition int) *producer {
	p := &producer{options: o, shape: shape, partition: partition, topicID: topicID}
	flexible := o.Version >= produceFlexibleFrom
	w := request(keyProduce, o.Version, 0, flexible)
	if flexible {
		w.uvarint(0)
	} else {
		w.i16(-1)
	}
	w.i16(-1) // acks
	w.i32(30_000)
	w.count(1, flexible)
	if o.Version >= produceTopicIDFrom {
		w.bytes(topicID)
	} else {
		w.str(o.Topic, flexible)
	}
	w.count(1, flexible)
	w.i32(int32(partition))
	w.count(shape.size(), flexible) // the length of a byte string has the form of an array's length
	if flexible {
		p.tail = []byte{0, 0, 0}
	}
	w.setSize(shape.size() + len(p.tail))
	p.prefix = w
	for i := 0; i < o.InFlight; i++ {
		p.slots = append(p.slots, append(append([]byte(nil), w...), shape.header[:]...))
	}
	p.answers = make([]byte, 64*1024)
	p.latencies = make([]uint32, 0, 1<<20)
	return p
}

func (p *producer) prepare() error {
	conn, err := p.options.dial()
	if err != nil {
		return err
	}
	id, epoch, err := initProducerID(conn)
	if err != nil {
		return err
	}
	p.conn = conn
	for _, slot := range p.slots {
		header := slot[len(p.prefix):]
		binary.BigEndian.PutUint64(header[producerIDAt:], uint64(id))
		binary.BigEndian.PutUint16(header[producerEpochAt:], uint16(epoch))
	}
	if err := p.produce(p.options.Warmup, time.Now().Add(time.Minute)); err != nil {
		return err
	}
	p.started = p.answered
	p.latencies = p.latencies[:0]
	return nil
}

func (p *producer) measure(until time.Time) error {
	most := 1 << 40
	if p.options.Requests > 0 {
		most = p.options.Requests / p.options.Connections
	}
	return p.produce(most, until)
}

func (p *producer) result() measured {
	requests := p.answered - p.started
	return measured{requests, int64(requests) * int64(p.shape.size()), p.latencies}
}

// produce sends `count` requests, or fewer if the time is up, and returns after the last response.
func (p *producer) produce(count int, until time.Time) error {
	last := p.sent + count
	joined := make([]byte, 0, p.options.InFlight*(len(p.prefix)+p.shape.size()+len(p.tail)))
	// A large batch is sent without a copy. Small batches are copied into one buffer.
	small := p.shape.size() <= 32*1024
	for p.sent < last || p.answered < p.sent {
		now := time.Now()
		if p.sent < last && now.After(until) {
			last = p.sent
		}
		joined = joined[:0]
		var parts net.Buffers
		for ; p.sent < last && p.sent-p.answered < p.options.InFlight; p.sent++ {
			slot := p.patch(now)
			if small {
				joined = append(append(append(joined, slot...), p.shape.body...), p.tail...)
			} else {
				parts = append(parts, slot, p.shape.body, p.tail)
			}
		}
		if len(joined) > 0 {
			if _, err := p.conn.Write(joined); err != nil {
				return err
			}
		} else if len(parts) > 0 {
			if _, err := parts.WriteTo(p.conn); err != nil {
				return err
			}
		}
		if p.answered < p.sent {
			if err := p.take(); err != nil {
				return err
			}
		}
	}
	return nil
}

// patch sets those fields of the next request that differ from the last request: correlation id, time, sequence and CRC.
func (p *producer) patch(now time.Time) []byte {
	slot := p.slots[p.sent%len(p.slots)]
	binary.BigEndian.PutUint32(slot[8:], uint32(p.sent))
	header := slot[len(p.prefix):]
	ms := now.UnixMilli()
	binary.BigEndian.PutUint64(header[baseTimeAt:], uint64(ms))
	binary.BigEndian.PutUint64(header[maxTimeAt:], uint64(ms+p.shape.maxDelta))
	binary.BigEndian.PutUint32(header[baseSequenceAt:], uint32(p.sent*p.shape.records)&0x7fffffff)
	binary.BigEndian.PutUint32(header[crcAt:], p.shape.crc(header))
	p.sentAt[p.sent%len(p.sentAt)] = now
	return slot
}

// take reads the bytes that have arrived, and checks every whole response in them.
func (p *producer) take() error {
	n, err := p.conn.Read(p.answers[p.filled:])
	if err != nil {
		return fmt.Errorf("after %d answers: %w", p.answered, err)
	}
	now := time.Now()
	p.filled += n
	pos := 0
	for p.filled-pos >= 4 {
		end := pos + 4 + int(binary.BigEndian.Uint32(p.answers[pos:]))
		if end > p.filled {
			break
		}
		if err := p.checkAnswer(p.answers[pos+4 : end]); err != nil {
			return err
		}
		p.latencies = append(p.latencies, uint32(now.Sub(p.sentAt[p.answered%len(p.sentAt)])))
		p.answered++
		pos = end
	}
	copy(p.answers, p.answers[pos:p.filled])
	p.filled -= pos
	return nil
}

func (p *producer) checkAnswer(answer []byte) error {
	flexible := p.options.Version >= produceFlexibleFrom
	r := reader{data: answer}
	correlation := r.i32()
	if flexible {
		r.tags()
	}
	topics := r.count(flexible)
	if p.options.Version >= produceTopicIDFrom {
		r.take(16)
	} else if flexible {
		r.take(r.uvarint() - 1)
	} else {
		r.take(int(r.i16()))
	}
	partitions, index, code, offset := r.count(flexible), r.i32(), r.i16(), r.i64()
	switch {
	case r.err != nil:
		return fmt.Errorf("Produce: %w", r.err)
	case int(correlation) != p.answered || topics != 1 || partitions != 1 || int(index) != p.partition:
		return fmt.Errorf("Produce: request %d was answered with % x", p.answered, answer)
	case code != 0:
		return fmt.Errorf("Produce: request %d was answered with error %d", p.answered, code)
	case offset != int64(p.answered)*int64(p.shape.records):
		return fmt.Errorf("Produce: request %d got base offset %d", p.answered, offset)
	}
	return nil
}
