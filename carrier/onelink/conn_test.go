package onelink_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/carrier/onelink"
	"github.com/simwarden/simwarden/internal/clock"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/lab"
	dialect "github.com/simwarden/simwarden/lab/onelink"
)

// letters is an ICCID as China Mobile prints them.
const letters = "898604A4192110001234"

// rig is connections to one account of a lab.
type rig struct {
	t       *testing.T
	clock   *clock.Manual
	world   *lab.World
	account *lab.Account
	base    string
	client  *http.Client
	mu      sync.Mutex
	calls   []string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, clock: clock.NewManual(time.Date(2026, time.March, 14, 9, 26, 53, 0, time.UTC)), client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	r.world = lab.New(lab.Config{Clock: r.clock, Seed: 7})
	var err error
	if r.account, err = r.world.AddAccount(lab.AccountSpec{Name: "cmcc", Dialect: "onelink"}); err != nil {
		t.Fatal(err)
	}
	server, err := r.world.Serve(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.world.Close()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	r.base = r.account.BaseURL(server.URL)
	return r
}

// Do sends a request and remembers its call.
func (r *rig) Do(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	_, call, _ := strings.Cut(req.URL.Path, "/v5/ec/")
	r.calls = append(r.calls, call)
	r.mu.Unlock()
	return r.client.Do(req)
}

func (r *rig) sent() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := strings.Join(r.calls, " ")
	r.calls = nil
	return calls
}

func (r *rig) open(tokens carrier.TokenStore, settings map[string]string) carrier.Conn {
	r.t.Helper()
	conn, err := onelink.Driver{}.Open(carrier.Config{BaseURL: r.base, Credentials: r.account.Credentials(), Settings: settings, HTTP: r, Now: r.clock.Now, Tokens: tokens})
	if err != nil {
		r.t.Fatal(err)
	}
	return conn
}

func (r *rig) sim(iccid string, raw simwarden.State) carrier.SIMRef {
	r.t.Helper()
	truth, err := r.account.AddSIM(lab.NewSIM{ICCID: iccid, State: raw})
	if err != nil {
		r.t.Fatal(err)
	}
	return carrier.SIMRef{ICCID: simwarden.MustParseICCID(truth.ICCID), Key: truth.Key}
}

func TestAStoppedSIMIsReadByTwoRequestsAndAnyOtherByOne(t *testing.T) {
	r := newRig(t)
	conn := r.open(nil, nil)
	active, stopped := r.sim(letters, simwarden.StateActive), r.sim("", dialect.StoppedByCredit)
	for _, row := range []struct {
		sim  carrier.SIMRef
		sent string
		want simwarden.ExtendedState
	}{
		{active, "get/token query/sim-status", simwarden.ExtendedNone},
		{stopped, "query/sim-status query/sim-stop-reason", simwarden.ExtendedArrears},
	} {
		reading, err := conn.State(t.Context(), row.sim)
		if err != nil {
			t.Fatal(err)
		}
		if sent := r.sent(); sent != row.sent {
			t.Errorf("sent %q, want %q", sent, row.sent)
		}
		if reading.State.Extended != row.want || reading.ICCID != row.sim.ICCID || reading.State.ChangedAt.IsZero() {
			t.Errorf("SIM %s reads as %+v", row.sim.ICCID, *reading.State)
		}
	}
}

func TestI6AnICCIDWithLettersIsTextAllTheWay(t *testing.T) {
	r := newRig(t)
	conn := r.open(nil, nil)
	sim := r.sim(letters, simwarden.StateActive)
	short := carrier.SIMRef{ICCID: simwarden.MustParseICCID(letters[:19])} // printed without its check digit
	reading, err := conn.State(t.Context(), sim)
	if err != nil || reading.Key != letters {
		t.Errorf("read %+v, %v", reading, err)
	}
	if _, err := conn.Suspend(t.Context(), sim); err != nil {
		t.Error(err)
	}
	if truth, _ := r.account.SIM(letters); truth.State != simwarden.StateSuspended {
		t.Errorf("the SIM is %s", truth.State)
	}
	// Ten digits could follow; two more forms are asked for, and the tenth is not among them.
	_, err = conn.State(t.Context(), short)
	var e *carrier.Error
	if !errors.As(err, &e) || e.Code != "11011" {
		t.Errorf("a form whose check digit cannot be computed: %v, want the carrier's not found", err)
	}
}

func TestS8RiskStopRefusesAResumeOnce(t *testing.T) {
	r := newRig(t)
	conn := r.open(nil, nil)
	set, err := rules.NewRuleSet(onelink.Driver{}.Info().Rules)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		raw  simwarden.State
		want carrier.Class
		code string
	}{
		{dialect.StoppedByRisk, carrier.ClassRiskSuspended, "12141"},
		{dialect.StoppedByForce, carrier.ClassRiskSuspended, "12098"},
		{dialect.StoppedByExpiry, carrier.ClassRefused, "12099"},
		{dialect.StoppedByCredit, carrier.ClassRefused, "12100"},
		{"8", carrier.ClassInvalid, "12089"},
		{"2", carrier.ClassAlreadyInState, "12048"},
	} {
		sim := r.sim("", row.raw)
		if _, err := conn.State(t.Context(), sim); err != nil {
			t.Fatal(err)
		}
		r.sent()
		_, err := conn.Resume(t.Context(), sim)
		var e *carrier.Error
		if !errors.As(err, &e) {
			t.Fatalf("a SIM in %q was resumed: %v", row.raw, err)
		}
		got := set.Classify(e)
		if got.Class != row.want || e.Code != row.code || e.Message == "" {
			t.Errorf("a resume from %q is %s (%v), want %s with %s", row.raw, got.Class, e, row.want, row.code)
		}
		if sent := r.sent(); sent != "change/sim-status" {
			t.Errorf("a refused resume sent %q", sent)
		}
		if risk := row.want == carrier.ClassRiskSuspended; got.ClosePolling != risk {
			t.Errorf("a resume from %q closes polling: %v", row.raw, got.ClosePolling)
		}
	}
}

func TestE11UsageOfTheOlderPlatformIsLastMidnights(t *testing.T) {
	r := newRig(t)
	midnight := time.Date(2026, time.March, 13, 16, 0, 0, 0, time.UTC) // 14 March in UTC+8
	for _, row := range []struct {
		sentence string
		raw      simwarden.State
		platform string
		read     bool // the state before the usage
		want     time.Time
	}{
		{"a SIM of CT, as its state told, is true when read", "2", "", true, time.Time{}},
		{"a SIM of PB, as its state told, is last midnight's", "00", "", true, midnight},
		{"a SIM of which nothing is known is taken for the older", "2", "", false, midnight},
		{"a SIM of an account that has CT alone is true when read", "2", "ct", false, time.Time{}},
		{"a SIM of an account that has PB alone is last midnight's", "00", "pb", false, midnight},
	} {
		conn := r.open(nil, map[string]string{"platform": row.platform})
		sim := r.sim("", row.raw)
		if row.read {
			if _, err := conn.State(t.Context(), sim); err != nil {
				t.Fatal(err)
			}
		}
		reading, err := conn.(carrier.UsageReader).Usage(t.Context(), sim)
		if err != nil || !reading.Usage.TrueAt.Equal(row.want) {
			t.Errorf("%s: got %+v, %v, want true at %v", row.sentence, reading.Usage, err, row.want)
		}
	}
}

func TestF34ConnectionsThatShareAStoreShareALogin(t *testing.T) {
	r := newRig(t)
	store := carrier.NewMemoryTokens(r.clock.Now)
	first, second := r.open(store, nil), r.open(store, nil)
	sim := r.sim("", simwarden.StateActive)
	read := func(conn carrier.Conn) {
		t.Helper()
		if _, err := conn.State(t.Context(), sim); err != nil {
			t.Error(err)
		}
	}
	read(first)
	read(second)
	r.account.ExpireTokens()
	read(second)
	read(first)
	if want := "get/token query/sim-status query/sim-status query/sim-status get/token query/sim-status query/sim-status query/sim-status"; r.sent() != want {
		t.Error("the connections did not share their logins")
	}
	// Two without a store end each other's: what the store is for.
	first, second = r.open(nil, nil), r.open(nil, nil)
	read(first)
	read(second)
	read(first)
	if sent := r.sent(); strings.Count(sent, "get/token") != 3 {
		t.Errorf("without a store: %q", sent)
	}
}

// brokenStore is a token store whose database is away.
type brokenStore struct{}

func (brokenStore) Renew(context.Context, carrier.Token, func(context.Context) (carrier.Token, error)) (carrier.Token, bool, error) {
	return carrier.Token{}, false, errors.New("no database")
}

func TestACommandIsNotSentWhereTheSharedLoginCannotBeHad(t *testing.T) {
	r := newRig(t)
	conn := r.open(brokenStore{}, nil)
	_, err := conn.Suspend(t.Context(), r.sim("", simwarden.StateActive))
	var e *carrier.Error
	if !errors.As(err, &e) || e.Operation != simwarden.OpToken || !e.NotSent {
		t.Errorf("got %v, want an error of operation token, not sent", err)
	}
	if sent := r.sent(); sent != "" {
		t.Errorf("sent %q", sent)
	}
}

func TestAStopReasonThatIsNotOrderedLeavesTheStateReadable(t *testing.T) {
	answers := map[string]string{
		"get/token":             `{"status":"0","message":"正确","result":[{"token":"abc","ttl":"7200"}]}`,
		"query/sim-status":      `{"status":"0","message":"正确","result":[{"cardStatus":"4","lastChangeDate":"20260314172653"}]}`,
		"query/sim-stop-reason": `{"status":"12199","message":"能力未订购","result":[]}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, call, _ := strings.Cut(req.URL.Path, "/v5/ec/")
		if _, err := io.WriteString(w, answers[call]); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	r := newRig(t)
	r.base = server.URL
	conn := r.open(nil, nil)
	sim := carrier.SIMRef{ICCID: simwarden.MustParseICCID(letters), Key: letters}
	reading, err := conn.State(t.Context(), sim)
	if err != nil || reading.State.State != simwarden.StateSuspended || reading.State.Extended != simwarden.ExtendedNone || reading.State.Raw != "4" {
		t.Errorf("read %+v, %v", reading.State, err)
	}
	if want := time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC); err == nil && !reading.State.ChangedAt.Equal(want) {
		t.Errorf("changed at %v, want %v: the carrier writes UTC+8", reading.State.ChangedAt, want)
	}
	answers["query/sim-stop-reason"] = `{"status":"99999","message":"系统异常","result":[]}`
	if reading, err := conn.State(t.Context(), sim); err == nil {
		t.Errorf("a stopped SIM whose reason could not be read is %+v: it may be read again", *reading.State)
	}
}
