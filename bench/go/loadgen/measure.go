package main

import (
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of /proc/<pid>/stat on every Linux that Go runs on.
const clockTick = 10 * time.Millisecond

// processCPU is the user and system CPU time that a process has used so far, or 0 if it is unknown. The scheduler's own count
// is exact to the nanosecond. If the kernel has no such count, /proc/<pid>/stat has the time in ticks.
func processCPU(pid int) time.Duration {
	if pid <= 0 {
		return 0
	}
	folder := filepath.Join("/proc", strconv.Itoa(pid))
	files, _ := filepath.Glob(filepath.Join(folder, "task", "*", "schedstat"))
	var total time.Duration
	for _, file := range files {
		text, err := os.ReadFile(file)
		if fields := strings.Fields(string(text)); err == nil && len(fields) > 0 {
			ns, _ := strconv.ParseInt(fields[0], 10, 64)
			total += time.Duration(ns)
		}
	}
	if total > 0 {
		return total
	}
	text, err := os.ReadFile(filepath.Join(folder, "stat"))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * clockTick
}

// percentile returns this percentile, in microseconds, of latencies in nanoseconds.
func percentile(latencies []uint32, share float64) float64 {
	if len(latencies) == 0 {
		return 0
	}
	sort.Slice(latencies, func(i, j int) bool { return latencies[i] < latencies[j] })
	index := int(share * float64(len(latencies)))
	if index >= len(latencies) {
		index = len(latencies) - 1
	}
	return float64(latencies[index]) / 1e3
}
