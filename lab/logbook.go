package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"sync"
)

// logbook writes lines out and keeps the last of them.
type logbook struct {
	mu      sync.Mutex
	out     io.Writer
	err     error
	keep    int
	kept    []LogLine // a ring once it is full
	first   int
	changed chan struct{} // made by whoever waits, closed at the next line
}

func newLogbook(out io.Writer, keep int) *logbook { return &logbook{out: out, keep: keep} }

func (b *logbook) write(line LogLine) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.keep == 0:
	case len(b.kept) < b.keep:
		b.kept = append(b.kept, line)
	default:
		b.kept[b.first] = line
		b.first = (b.first + 1) % b.keep
	}
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
	if b.out == nil || b.err != nil {
		return
	}
	text, err := json.Marshal(line)
	if err == nil {
		_, err = b.out.Write(append(text, '\n'))
	}
	if err != nil {
		b.err = fmt.Errorf("write the lab's log: %w", err)
	}
}

func (b *logbook) lines() []LogLine {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.copied()
}

func (b *logbook) copied() []LogLine {
	out := make([]LogLine, 0, len(b.kept))
	out = append(out, b.kept[b.first:]...)
	return append(out, b.kept[:b.first]...)
}

func (b *logbook) wait(ctx context.Context, match func(LogLine) bool) (LogLine, error) {
	for {
		b.mu.Lock()
		for i := range b.kept {
			line := b.kept[(b.first+i)%len(b.kept)]
			if match(line) {
				b.mu.Unlock()
				return line, nil
			}
		}
		if b.changed == nil {
			b.changed = make(chan struct{})
		}
		changed := b.changed
		b.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return LogLine{}, fmt.Errorf("wait for a line of the lab's log: %w", ctx.Err())
		}
	}
}

func (b *logbook) failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// by names the cause of a change in a SIM's history.
func (l *LogLine) by() string {
	if l.RequestID != "" {
		return l.RequestID
	}
	return "request " + strconv.FormatUint(l.Seq, 10)
}
