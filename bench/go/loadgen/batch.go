package main

import (
	"encoding/binary"
	"hash/crc32"
	"math/rand"
)

// The size of the header of a record batch, and the positions of the fields that change from batch to batch.
const (
	batchHeaderSize = 61
	crcAt           = 17
	crcStart        = 21
	baseTimeAt      = 27
	maxTimeAt       = 35
	producerIDAt    = 43
	producerEpochAt = 51
	baseSequenceAt  = 53
	lastDeltaAt     = 23
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// batchShape is a batch whose records never change. If its header changes, its CRC is combined from the CRCs of the header and
// of the records. This takes 32 steps instead of a walk over a megabyte, so the generator needs little CPU time.
type batchShape struct {
	header   [batchHeaderSize]byte
	body     []byte
	records  int
	maxDelta int64
	bodyCRC  uint32
	shift    [32]uint32 // what each bit of the header's CRC becomes after len(body) more bytes
}

func (s *batchShape) size() int { return batchHeaderSize + len(s.body) }

func newBatchShape(o Options) *batchShape {
	s := &batchShape{records: o.Records}
	s.body, s.maxDelta = makeRecords(o)
	h := s.header[:]
	binary.BigEndian.PutUint32(h[8:], uint32(s.size()-12))
	binary.BigEndian.PutUint32(h[12:], 0xffffffff) // partition leader epoch: -1
	h[16] = 2
	binary.BigEndian.PutUint32(h[lastDeltaAt:], uint32(o.Records-1))
	binary.BigEndian.PutUint32(h[57:], uint32(o.Records))
	s.bodyCRC = crc32.Checksum(s.body, castagnoli)
	// CRC is affine: crc(h+b) = crc(b) ^ L(crc(h)). L is linear, so its results for single bits determine L.
	zero := make([]byte, len(s.body))
	base := crc32.Update(0, castagnoli, zero)
	for i := range s.shift {
		s.shift[i] = crc32.Update(1<<i, castagnoli, zero) ^ base
	}
	return s
}

// crc of a batch with this header and the shape's records.
func (s *batchShape) crc(header []byte) uint32 {
	left := crc32.Checksum(header[crcStart:batchHeaderSize], castagnoli)
	crc := s.bodyCRC
	for i := 0; left != 0; i, left = i+1, left>>1 {
		if left&1 != 0 {
			crc ^= s.shift[i]
		}
	}
	return crc
}

// makeRecords builds the records of one batch, and returns the time from the first record to the last record, in ms. Uniform
// records have the same size and time, and no key. Varied records differ in size, key and time, like the records of real
// producers.
func makeRecords(o Options) ([]byte, int64) {
	random := rand.New(rand.NewSource(1))
	room := o.BatchBytes - batchHeaderSize
	mean := room / o.Records
	var body writer
	var delta int64
	for i := 0; i < o.Records; i++ {
		value, key := o.RecordBytes, []byte(nil)
		if o.Varied {
			delta += int64(random.Intn(3))
			if i%2 == 1 {
				key = []byte("key-0000000")[:4+random.Intn(8)]
			}
			if value > 0 {
				value += random.Intn(value/2+1) - value/4
			} else {
				share := (room - len(body)) / (o.Records - i)
				value = valueFor(share+random.Intn(mean/2+1)-mean/4, delta, i, key)
				if i == o.Records-1 {
					value = valueFor(room-len(body), delta, i, key)
				}
			}
		} else if value == 0 {
			value = valueFor(mean, 0, o.Records-1, nil)
		}
		appendRecord(&body, delta, i, key, value, random)
	}
	return body, delta
}

// valueFor is the size of the largest value with which a record has at most `size` bytes. It is at least 1.
func valueFor(size int, delta int64, index int, key []byte) int {
	for value := size; value > 1; value-- {
		var w writer
		appendRecord(&w, delta, index, key, 0, nil)
		inner := len(w) - 1 + value + varintSize(int64(value)) - 1
		if inner+varintSize(int64(inner)) <= size {
			return value
		}
	}
	return 1
}

func varintSize(v int64) int {
	var w writer
	w.varint(v)
	return len(w)
}

func appendRecord(out *writer, delta int64, index int, key []byte, value int, random *rand.Rand) {
	var inner writer
	inner.i8(0) // attributes
	inner.varint(delta)
	inner.varint(int64(index))
	if key == nil {
		inner.varint(-1)
	} else {
		inner.varint(int64(len(key)))
		inner.bytes(key)
	}
	inner.varint(int64(value))
	for i := 0; i < value; i++ {
		inner.i8(int8(random.Intn(256)))
	}
	inner.varint(0) // headers
	out.varint(int64(len(inner)))
	out.bytes(inner)
}
