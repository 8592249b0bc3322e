package pgembed

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// attributes make the server die with us and not with the terminal. Go sets the parent-death
// signal after the change of user, which would clear it (prctl(2), PR_SET_PDEATHSIG). SIGINT is
// Postgres's fast shutdown.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGINT}
}

// isServerOf says whether process pid is a postgres that works in cluster. A replaced program
// shows as "/path/postgres (deleted)" after an upgrade.
func isServerOf(pid int, cluster string) bool {
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	exe, err := os.Readlink(filepath.Join(proc, "exe"))
	if err != nil {
		return false
	}
	name := strings.TrimSuffix(filepath.Base(exe), " (deleted)")
	cwd, err := os.Readlink(filepath.Join(proc, "cwd"))
	return err == nil && (name == "postgres" || name == "postmaster") && cwd == cluster
}

// lockHolders names the processes that hold a flock on f, as "1234 (simwarden)", from /proc/locks
// (proc(5)).
func lockHolders(f *os.File) []string {
	st, err := f.Stat()
	if err != nil {
		return nil
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	id := fmt.Sprintf("%02x:%02x:%d", unix.Major(sys.Dev), unix.Minor(sys.Dev), sys.Ino)
	locks, err := os.Open("/proc/locks")
	if err != nil {
		return nil
	}
	defer locks.Close()
	var holders []string
	for sc := bufio.NewScanner(locks); sc.Scan(); {
		// 1: FLOCK  ADVISORY  READ 1234 08:01:131 0 EOF
		w := strings.Fields(sc.Text())
		if len(w) < 6 || w[1] != "FLOCK" || w[5] != id || w[4] == strconv.Itoa(os.Getpid()) {
			continue
		}
		name, err := os.ReadFile(filepath.Join("/proc", w[4], "comm"))
		if err != nil {
			continue
		}
		holders = append(holders, w[4]+" ("+strings.TrimSpace(string(name))+")")
	}
	slices.Sort(holders)
	return slices.Compact(holders)
}

// memoryBytes is what this process may use: the machine's memory, or its control group's limit.
func memoryBytes() int64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	total := int64(info.Totalram) * int64(info.Unit)
	limit, err := os.ReadFile("/sys/fs/cgroup/memory.max")
	if err != nil {
		return total
	}
	if n, err := strconv.ParseInt(strings.TrimSpace(string(limit)), 10, 64); err == nil && n < total {
		return n
	}
	return total
}
