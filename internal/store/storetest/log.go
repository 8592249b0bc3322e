package storetest

import (
	"bytes"
	"sync"
)

// Log is a log that can be read while others write it.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write adds to the log.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// Bytes is a copy of what is written so far.
func (l *Log) Bytes() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Clone(l.text.Bytes())
}

// String is what is written so far.
func (l *Log) String() string { return string(l.Bytes()) }
