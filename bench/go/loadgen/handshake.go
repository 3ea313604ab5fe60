package main

import (
	"crypto/tls"
	"fmt"
	"net"
	"time"
)

const keyAPIVersions = 18

// dial connects to the broker. Sessions of TLS are not resumed.
func (o Options) dial() (net.Conn, error) {
	conn, err := net.Dial("tcp", o.Address)
	if err != nil || !o.TLS {
		return conn, err
	}
	return tls.Client(conn, &tls.Config{InsecureSkipVerify: true}), nil
}

// greeter makes one connection after the other.
type greeter struct {
	options Options
	taken   measured
}

func (g *greeter) prepare() error {
	for left := g.options.Warmup / g.options.Connections; left > 0; left-- {
		if err := g.greet(); err != nil {
			return err
		}
	}
	return nil
}

func (g *greeter) measure(until time.Time) error {
	for began := time.Now(); began.Before(until); began = time.Now() {
		if err := g.greet(); err != nil {
			return err
		}
		g.taken.requests++
		g.taken.latencies = append(g.taken.latencies, uint32(time.Since(began)))
	}
	return nil
}

func (g *greeter) result() measured { return g.taken }

// greet connects and exchanges one request, so that the server has finished its part of the handshake.
func (g *greeter) greet() error {
	conn, err := g.options.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	r, err := exchange(conn, request(keyAPIVersions, 0, 1, false))
	if err != nil {
		return fmt.Errorf("ApiVersions: %w", err)
	}
	if code := r.i16(); code != 0 || r.err != nil {
		return fmt.Errorf("ApiVersions was answered with error %d (%v)", code, r.err)
	}
	return nil
}
