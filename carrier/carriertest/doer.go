package carriertest

import (
	"bytes"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
)

// Doer sends requests as they are, once, over connections that are not kept, and remembers the
// operation of each. Unlike the gateway it gives net/http's errors as they are, URL and all: a
// driver must not hand them on so.
type Doer struct {
	t        *testing.T
	client   *http.Client
	contract *contract

	mu   sync.Mutex
	sent []simwarden.Operation
}

func newDoer(t *testing.T) *Doer {
	return &Doer{t: t, client: &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close ends the connections.
func (d *Doer) Close() { d.client.CloseIdleConnections() }

// Do sends one request.
func (d *Doer) Do(req *http.Request) (*http.Response, error) {
	op, ok := carrier.OperationFrom(req.Context())
	if !ok {
		d.t.Errorf("%s %s belongs to no operation (G1)", req.Method, req.URL.Path)
	}
	d.mu.Lock()
	d.sent = append(d.sent, op)
	d.mu.Unlock()
	if d.contract == nil {
		return d.client.Do(req)
	}
	body, err := drain(req.Body)
	if err != nil {
		return nil, err
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	resp, err := d.client.Do(req)
	if err != nil {
		return nil, err
	}
	answer, err := drain(resp.Body)
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(answer))
	d.contract.hold(d.t, req, body, resp, answer)
	return resp, nil
}

// take gives the operations sent since it was last asked.
func (d *Doer) take() []simwarden.Operation {
	d.mu.Lock()
	defer d.mu.Unlock()
	sent := d.sent
	d.sent = nil
	return sent
}

// count is how many requests of the operation were sent since take was last called.
func (d *Doer) count(op simwarden.Operation) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for _, sent := range d.sent {
		if sent == op {
			n++
		}
	}
	return n
}

func drain(body io.ReadCloser) ([]byte, error) {
	if body == nil {
		return nil, nil
	}
	defer body.Close()
	return io.ReadAll(body)
}
