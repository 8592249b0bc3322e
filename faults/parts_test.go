package faults_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// partOfRun is a line of the file that a run keeps of what it reached: they add up.
type partOfRun struct {
	Schedules int            `json:"schedules"`
	Pairs     map[string]int `json:"pairs"`
}

func pairName(point, name string) string { return point + " " + name }

// goOnFrom reads what earlier runs reached; nothing where no file is named, or there is none yet.
func (c *coverage) goOnFrom(path string) error {
	if path == "" {
		return nil
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was read
	for lines := json.NewDecoder(f); ; {
		var p partOfRun
		err := lines.Decode(&p)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("what earlier runs reached, in %s: %w", path, err)
		}
		c.earlier.Schedules += p.Schedules
		for pair, n := range p.Pairs {
			c.earlier.Pairs[pair] += n
		}
	}
}

// keepIn adds to the file what this run reached since it did so last.
func (c *coverage) keepIn(path string) error {
	if path == "" {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p := partOfRun{Schedules: c.schedules - c.kept.Schedules, Pairs: map[string]int{}}
	for pair, n := range c.pairs {
		if more := n - c.kept.Pairs[pairName(pair[0], pair[1])]; more > 0 {
			p.Pairs[pairName(pair[0], pair[1])] = more
		}
	}
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.Write(append(text, '\n')); err != nil {
		return errors.Join(err, f.Close())
	}
	c.kept.Schedules = c.schedules
	for pair, more := range p.Pairs {
		c.kept.Pairs[pair] += more
	}
	return f.Close()
}

func TestPartsOfARunAddUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "coverage")
	point, name := points()[0], faultNames()[0]
	e := episode{aim: aim{Point: point, Fault: name, How: killed}}
	for part := range 3 {
		c := newCoverage()
		if err := c.goOnFrom(path); err != nil {
			t.Fatal(err)
		}
		for range 2 { // it keeps what it has while it runs, and at its end
			c.reached(e, true, 1)
			c.ended(outcome{})
			if err := c.keepIn(path); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := c.met(point, name), 2*(part+1); got != want || c.inAll() != want {
			t.Errorf("after part %d they met %d times in %d schedules, want %d", part+1, got, c.inAll(), want)
		}
		if missed := len(c.missed(1)) - len(c.missed(0)); missed != len(points())*len(faultNames())-1 {
			t.Errorf("%d pairs never met", missed)
		}
	}
}
