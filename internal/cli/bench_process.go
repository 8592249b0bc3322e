package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// tickCPU is the unit of CPU time in /proc: USER_HZ, 100 a second in all of Linux's interfaces to
// user space (proc_pid_stat(5)).
const tickCPU = 10 * time.Millisecond

// ownCPU is the CPU time of this process so far, user and system.
func ownCPU() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("CPU time of this process: %w", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

// procStat is what is needed of /proc/PID/stat.
type procStat struct {
	pid, parent int
	cpu         time.Duration // of the process itself
	reaped      time.Duration // of its children that have ended
}

// serverCPU is the CPU time of a Postgres so far: its postmaster, the processes that live, and those
// that have ended, whose time the postmaster has taken over. It needs Linux's /proc.
func serverCPU(postmaster int) (time.Duration, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	var sum time.Duration
	found := false
	for _, path := range stats {
		s, err := readStat(path)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has ended since
		}
		if err != nil {
			return 0, err
		}
		switch {
		case s.pid == postmaster:
			found = true
			sum += s.cpu + s.reaped
		case s.parent == postmaster:
			sum += s.cpu
		}
	}
	if !found {
		return 0, fmt.Errorf("CPU time of the database: process %d is not in /proc", postmaster)
	}
	return sum, nil
}

// parentOf gives the parent of a process.
func parentOf(pid int) (int, error) {
	s, err := readStat(fmt.Sprintf("/proc/%d/stat", pid))
	return s.parent, err
}

func readStat(path string) (procStat, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return procStat{}, fmt.Errorf("CPU time: %w", err)
	}
	return parseStat(b)
}

// parseStat reads the fields 1, 4 and 14 to 17; the second is in brackets and may hold anything.
func parseStat(b []byte) (s procStat, err error) {
	pid, _, ok := bytes.Cut(b, []byte(" ("))
	end := bytes.LastIndexByte(b, ')')
	if !ok || end < 0 {
		return s, fmt.Errorf("CPU time: %q is no line of /proc/PID/stat", b)
	}
	rest := strings.Fields(string(b[end+1:])) // from field 3 on
	if len(rest) < 15 {
		return s, fmt.Errorf("CPU time: %q is too short for a line of /proc/PID/stat", b)
	}
	var ticks [4]int64
	if s.pid, err = strconv.Atoi(string(pid)); err == nil {
		s.parent, err = strconv.Atoi(rest[1])
	}
	for i := range ticks {
		if err == nil {
			ticks[i], err = strconv.ParseInt(rest[11+i], 10, 64)
		}
	}
	if err != nil {
		return s, fmt.Errorf("CPU time: %w", err)
	}
	s.cpu, s.reaped = time.Duration(ticks[0]+ticks[1])*tickCPU, time.Duration(ticks[2]+ticks[3])*tickCPU
	return s, nil
}

// memory is the resident memory of this process in bytes, now and at most so far.
func memory() (now, peak int64, err error) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, 0, fmt.Errorf("memory of this process: %w", err)
	}
	if now, err = statusBytes(string(b), "VmRSS"); err == nil {
		peak, err = statusBytes(string(b), "VmHWM")
	}
	return now, peak, err
}

func statusBytes(status, name string) (int64, error) {
	for line := range strings.Lines(status) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			kB, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return kB << 10, err
		}
	}
	return 0, fmt.Errorf("memory of this process: no %s", name)
}
