package pgembed

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// LogFile is what the server says, in the data directory; LogFile.1 is what it said before.
	LogFile = "postgres.log"
	// logKeepBytes bounds each of the two files, save for what is written within logCheckEvery.
	logKeepBytes  = 8 << 20
	logCheckEvery = 30 * time.Second
	// saidBytes of a failed start are read to explain it.
	saidBytes = 64 << 10
)

// serverLog is the file that the server appends its messages to. The server has it open itself, so
// it can say why it stops even when we are gone; hence it is emptied in place, never moved.
type serverLog struct {
	f    *os.File
	keep int64
}

func openLog(l layout) (serverLog, error) {
	f, err := os.OpenFile(l.file(LogFile), os.O_RDWR|os.O_CREATE|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return serverLog{}, fmt.Errorf("open the server's log: %w", plainDiskFull(err, l.data))
	}
	if err := ownLike(f, l.data); err != nil {
		_ = f.Close()
		return serverLog{}, err
	}
	return serverLog{f: f, keep: logKeepBytes}, nil
}

// rotate moves the text to the older file when it has grown past its bound. What the server writes
// between copy and truncation is lost.
func (s serverLog) rotate() error {
	st, err := s.f.Stat()
	if err != nil || st.Size() <= s.keep {
		return err
	}
	older := s.f.Name() + ".1"
	if err := os.Remove(older); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the server's older log: %w", err)
	}
	out, err := os.OpenFile(older, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("make the server's older log: %w", err)
	}
	defer out.Close()
	if err := ownLike(out, filepath.Dir(older)); err != nil {
		return err
	}
	_, copied := io.Copy(out, io.NewSectionReader(s.f, st.Size()-s.keep, s.keep))
	// Emptied also when the copy failed: on a full disk this is what helps.
	if err := s.f.Truncate(0); err != nil {
		return fmt.Errorf("empty the server's log: %w", err)
	}
	if copied != nil {
		return fmt.Errorf("keep the server's older log: %w", copied)
	}
	return nil
}

// size is the position to give to since.
func (s serverLog) size() int64 {
	st, err := s.f.Stat()
	if err != nil {
		return 0
	}
	return st.Size()
}

// since is what was written after position from, its last saidBytes.
func (s serverLog) since(from int64) string {
	from = max(from, s.size()-saidBytes)
	text, err := io.ReadAll(io.NewSectionReader(s.f, from, saidBytes))
	if err != nil {
		return ""
	}
	return string(text)
}
