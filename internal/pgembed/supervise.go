package pgembed

import (
	"context"
	"errors"
	"time"
)

// A server that ended by itself is started again at once, then after pauses that grow: a disk that
// is full now may have room in the morning (F12).
const (
	firstPause = 250 * time.Millisecond
	lastPause  = 30 * time.Second
)

// supervise watches the server that this process runs until the handle is closed, and starts it
// again with Options.Own. The owner's lock stays ours in between, and the address stays the same.
func (h *Handle) supervise() {
	defer close(h.watched)
	for {
		select {
		case <-h.closed.Done():
			return
		case <-h.server.Done():
		}
		if !h.opts.Own || !h.revive() {
			if h.closed.Err() == nil {
				close(h.done)
			}
			return
		}
	}
}

// revive tries until the server runs; false when the handle was closed or it is of no use.
func (h *Handle) revive() bool {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		s, err := start(h.closed, h.opts, h.server.l, h.server.owner)
		if err == nil {
			h.server = s
			return true
		}
		if h.closed.Err() != nil {
			return false
		}
		h.opts.log("the database server could not be started again", "error", err.Error(), "next_try_in", pause.String())
		for _, lasting := range []error{ErrDamaged, ErrPermission, ErrNoBinaries} {
			if errors.Is(err, lasting) {
				return false
			}
		}
		wait, cancel := context.WithTimeout(h.closed, pause)
		<-wait.Done()
		cancel()
	}
}
