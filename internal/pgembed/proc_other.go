//go:build unix && !linux

package pgembed

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// attributes keep the terminal's Ctrl-C from the server. Without a parent-death signal a server
// whose parent was killed is found and stopped at the next start.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// isServerOf says whether process pid is a postgres that was started with -D cluster.
func isServerOf(pid int, cluster string) bool {
	out, err := exec.Command("ps", "-ww", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return false
	}
	program, rest, _ := strings.Cut(strings.TrimSpace(string(out)), " -D ")
	return filepath.Base(program) == "postgres" && strings.HasPrefix(rest+" ", cluster+" ")
}

// lockHolders cannot be known here.
func lockHolders(*os.File) []string { return nil }

// memoryBytes is unknown here: 0.
func memoryBytes() int64 { return 0 }
