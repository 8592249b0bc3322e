package lab_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/simwarden/simwarden/internal/clock"
	"github.com/simwarden/simwarden/lab"
	"github.com/simwarden/simwarden/lab/soracom"
	"github.com/simwarden/simwarden/lab/supersim"
)

var start = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

// rig is a world that listens on loopback, with one account and a client that is logged in.
type rig struct {
	t       *testing.T
	clock   *clock.Manual
	world   *lab.World
	server  *lab.Server
	account *lab.Account
	base    string
	client  *http.Client
	header  http.Header
	log     *bytes.Buffer
}

func newRig(t *testing.T, spec lab.AccountSpec) *rig {
	t.Helper()
	r := &rig{t: t, clock: clock.NewManual(start), header: http.Header{}, log: &bytes.Buffer{}}
	r.world = lab.New(lab.Config{Clock: r.clock, Seed: 7, Log: r.log})
	if spec.Name == "" {
		spec.Name = "first"
	}
	var err error
	if r.account, err = r.world.AddAccount(spec); err != nil {
		t.Fatal(err)
	}
	if r.server, err = r.world.Serve(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	r.client = &http.Client{Transport: &http.Transport{}, Timeout: 20 * time.Second}
	t.Cleanup(func() {
		r.client.CloseIdleConnections()
		if err := r.server.Close(); err != nil {
			t.Error(err)
		}
	})
	r.base = r.account.BaseURL(r.server.URL)
	if spec.Dialect == "soracom" {
		r.login()
	} else {
		request, _ := http.NewRequest(http.MethodGet, r.base, nil)
		request.SetBasicAuth(r.account.Credential(supersim.CredentialAccountSID), r.account.Credential(supersim.CredentialAuthToken))
		r.header.Set("Authorization", request.Header.Get("Authorization"))
	}
	return r
}

func (r *rig) login() {
	r.t.Helper()
	body, err := json.Marshal(map[string]string{"authKeyId": r.account.Credential(soracom.CredentialKeyID),
		"authKey": r.account.Credential(soracom.CredentialKey)})
	if err != nil {
		r.t.Fatal(err)
	}
	var token struct{ APIKey, Token, OperatorID string }
	r.must(http.MethodPost, "/auth", string(body), http.StatusOK).into(&token)
	r.header.Set("X-Soracom-API-Key", token.APIKey)
	r.header.Set("X-Soracom-Token", token.Token)
}

type answer struct {
	t      testing.TB
	status int
	header http.Header
	body   []byte
}

// into decodes the body as JSON.
func (a answer) into(v any) {
	a.t.Helper()
	if err := json.Unmarshal(a.body, v); err != nil {
		a.t.Fatalf("%v in %.300s", err, a.body)
	}
}

func (a answer) text(field string) string {
	a.t.Helper()
	var object map[string]any
	a.into(&object)
	text, _ := object[field].(string)
	return text
}

// do sends one request and reads the whole answer.
func (r *rig) do(ctx context.Context, method, path, body string) (answer, error) {
	url := path
	if !strings.HasPrefix(path, "http") {
		url = r.base + path
	}
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	for name, values := range r.header {
		request.Header[name] = values
	}
	if method == http.MethodPost && strings.Contains(path, "/v1/Sims") {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	response, err := r.client.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	got, err := io.ReadAll(response.Body)
	return answer{r.t, response.StatusCode, response.Header, got}, err
}

func (r *rig) must(method, path, body string, status int) answer {
	r.t.Helper()
	a, err := r.do(r.t.Context(), method, path, body)
	if err != nil {
		r.t.Fatalf("%s %s: %v", method, path, err)
	}
	if a.status != status {
		r.t.Fatalf("%s %s answered %d, want %d: %.300s", method, path, a.status, status, a.body)
	}
	return a
}

// fails sends a request that gets no answer.
func (r *rig) fails(method, path string) error {
	r.t.Helper()
	a, err := r.do(r.t.Context(), method, path, "")
	if err == nil {
		r.t.Fatalf("%s %s was answered %d: %.100s", method, path, a.status, a.body)
	}
	return err
}

func (r *rig) fault(f lab.Fault) int {
	r.t.Helper()
	id, err := r.world.SetFault(f)
	if err != nil {
		r.t.Fatal(err)
	}
	return id
}

func (r *rig) add(sim lab.NewSIM) string {
	r.t.Helper()
	truth, err := r.account.AddSIM(sim)
	if err != nil {
		r.t.Fatal(err)
	}
	return truth.ICCID
}

func (r *rig) truth(iccid string) lab.SIMTruth {
	r.t.Helper()
	truth, ok := r.account.SIM(iccid)
	if !ok {
		r.t.Fatalf("no sim %s", iccid)
	}
	return truth
}

// line waits for the first line that matches.
func (r *rig) line(match func(lab.LogLine) bool) lab.LogLine {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 10*time.Second)
	defer cancel()
	line, err := r.world.WaitLog(ctx, match)
	if err != nil {
		r.t.Fatal(err)
	}
	return line
}

func ofKind(kind lab.Kind) func(lab.LogLine) bool {
	return func(l lab.LogLine) bool { return l.Kind == kind }
}
