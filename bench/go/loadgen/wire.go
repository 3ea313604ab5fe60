package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// API keys, and the versions of the APIs whose version no option chooses.
const (
	keyProduce        = 0
	keyFetch          = 1
	keyCreateTopics   = 19
	keyInitProducerID = 22

	createTopicsVersion   = 7
	initProducerIDVersion = 1

	produceFlexibleFrom = 9
	produceTopicIDFrom  = 13
	fetchFlexibleFrom   = 12
	fetchTopicIDFrom    = 13
	fetchNoReplicaFrom  = 15

	coordinatorLoading = 14

	clientID = "bench"
)

// writer appends Kafka's primitive types, all big-endian.
type writer []byte

func (w *writer) i8(v int8)      { *w = append(*w, byte(v)) }
func (w *writer) i16(v int16)    { *w = binary.BigEndian.AppendUint16(*w, uint16(v)) }
func (w *writer) i32(v int32)    { *w = binary.BigEndian.AppendUint32(*w, uint32(v)) }
func (w *writer) i64(v int64)    { *w = binary.BigEndian.AppendUint64(*w, uint64(v)) }
func (w *writer) uvarint(v int)  { *w = binary.AppendUvarint(*w, uint64(v)) }
func (w *writer) varint(v int64) { *w = binary.AppendVarint(*w, v) } // zigzag
func (w *writer) bytes(v []byte) { *w = append(*w, v...) }
func (w *writer) tags()          { *w = append(*w, 0) }

// str writes a string in the form of flexible or older versions.
func (w *writer) str(v string, flexible bool) {
	if flexible {
		w.uvarint(len(v) + 1)
	} else {
		w.i16(int16(len(v)))
	}
	w.bytes([]byte(v))
}

// count writes the length of an array.
func (w *writer) count(n int, flexible bool) {
	if flexible {
		w.uvarint(n + 1)
	} else {
		w.i32(int32(n))
	}
}

// request begins a request: room for the frame's size, and the header.
func request(key, version, correlation int, flexible bool) writer {
	w := make(writer, 4, 256)
	w.i16(int16(key))
	w.i16(int16(version))
	w.i32(int32(correlation))
	w.i16(int16(len(clientID)))
	w.bytes([]byte(clientID))
	if flexible {
		w.tags()
	}
	return w
}

// setSize writes the size of a frame: the bytes in the writer and `more` bytes that follow.
func (w writer) setSize(more int) { binary.BigEndian.PutUint32(w, uint32(len(w)-4+more)) }

var errShort = errors.New("the response ends too early")

// reader reads Kafka's primitive types from a response. After the first error, it returns zero for everything.
type reader struct {
	data []byte
	err  error
}

func (r *reader) take(n int) []byte {
	if r.err != nil || n < 0 || n > len(r.data) {
		if r.err == nil {
			r.err = errShort
		}
		return make([]byte, 16)
	}
	taken := r.data[:n]
	r.data = r.data[n:]
	return taken
}

func (r *reader) i8() int8   { return int8(r.take(1)[0]) }
func (r *reader) i16() int16 { return int16(binary.BigEndian.Uint16(r.take(2))) }
func (r *reader) i32() int32 { return int32(binary.BigEndian.Uint32(r.take(4))) }
func (r *reader) i64() int64 { return int64(binary.BigEndian.Uint64(r.take(8))) }

func (r *reader) uvarint() int {
	v, n := binary.Uvarint(r.data)
	if n <= 0 {
		r.take(-1)
		return 0
	}
	r.take(n)
	return int(v)
}

func (r *reader) count(flexible bool) int {
	if flexible {
		return r.uvarint() - 1
	}
	return int(r.i32())
}

func (r *reader) str(flexible bool) string {
	n := 0
	if flexible {
		n = r.uvarint() - 1
	} else {
		n = int(r.i16())
	}
	if n <= 0 {
		return ""
	}
	return string(r.take(n))
}

func (r *reader) tags() {
	for n := r.uvarint(); n > 0 && r.err == nil; n-- {
		r.uvarint()
		r.take(r.uvarint())
	}
}

// exchange sends one request, and returns its response without the correlation id.
func exchange(conn net.Conn, w writer) (*reader, error) {
	w.setSize(0)
	if _, err := conn.Write(w); err != nil {
		return nil, err
	}
	var head [8]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return nil, err
	}
	if got, sent := head[4:], w[8:12]; string(got) != string(sent) {
		return nil, fmt.Errorf("correlation id % x in the response to % x", got, sent)
	}
	body := make([]byte, binary.BigEndian.Uint32(head[:])-4)
	_, err := io.ReadFull(conn, body)
	return &reader{data: body}, err
}

// createTopic makes the topic with a partition for each connection, and returns the topic's id.
func createTopic(o Options) ([]byte, error) {
	conn, err := o.dial()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	w := request(keyCreateTopics, createTopicsVersion, 1, true)
	w.count(1, true)
	w.str(o.Topic, true)
	w.i32(int32(o.Connections))
	w.i16(1) // replication factor
	w.count(0, true)
	w.count(0, true)
	w.tags()
	w.i32(30_000)
	w.i8(0)
	w.tags()
	r, err := exchange(conn, w)
	if err != nil {
		return nil, fmt.Errorf("CreateTopics: %w", err)
	}
	r.tags()
	r.i32()
	r.count(true)
	r.str(true)
	id := append([]byte(nil), r.take(16)...)
	if code := r.i16(); code != 0 || r.err != nil {
		return nil, fmt.Errorf("CreateTopics was answered with error %d (%v)", code, r.err)
	}
	return id, nil
}

// initProducerID gets an idempotent producer's id and epoch. A Kafka that has just started has no ids yet. Then initProducerID
// repeats the request.
func initProducerID(conn net.Conn) (id int64, epoch int16, err error) {
	code := int16(coordinatorLoading)
	for tries := 0; tries < 100 && code == coordinatorLoading && err == nil; tries++ {
		if tries > 0 {
			time.Sleep(50 * time.Millisecond)
		}
		id, epoch, code, err = tryInitProducerID(conn)
	}
	if err == nil && code != 0 {
		err = fmt.Errorf("InitProducerId was answered with error %d", code)
	}
	return id, epoch, err
}

func tryInitProducerID(conn net.Conn) (id int64, epoch, code int16, err error) {
	w := request(keyInitProducerID, initProducerIDVersion, 1, false)
	w.i16(-1) // no transactional id
	w.i32(60_000)
	r, err := exchange(conn, w)
	if err != nil {
		return 0, 0, 0, fmt.Errorf("InitProducerId: %w", err)
	}
	r.i32()
	code, id, epoch = r.i16(), r.i64(), r.i16()
	return id, epoch, code, r.err
}
