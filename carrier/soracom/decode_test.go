package soracom

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
)

func recorded(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "answers", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

const simKey = "8942310099000000010"

func TestDecodeOneSIM(t *testing.T) {
	good := string(recorded(t, "sim.json"))
	for _, row := range []struct {
		sentence, body string
		state          simwarden.State // empty: refused
	}{
		{"the SIM's own status counts, not that of a tag, a session or a subscriber", good, simwarden.StateActive},
		{"a word that nobody knows is unknown", strings.Replace(good, `"status": "active",
  "speedClass"`, `"status": "paused",
  "speedClass"`, 1), simwarden.StateUnknown},
		{"terminated is terminated", `{"simId":"` + simKey + `","status":"terminated"}`, simwarden.StateTerminated},
		{"F33: a simId as a number is the same SIM", `{"simId":` + simKey + `,"status":"active"}`, simwarden.StateActive},
		{"F33: a simId as a rounded number is not", `{"simId":8.94231009900000e18,"status":"active"}`, ""},
		{"another SIM's object is refused", `{"simId":"8942310099000000028","status":"active"}`, ""},
		{"no status is no state", `{"simId":"` + simKey + `"}`, ""},
		{"a null status is no state", `{"simId":"` + simKey + `","status":null}`, ""},
		{"a number for a status is refused", `{"simId":"` + simKey + `","status":1}`, ""},
		{"an empty status is refused", `{"simId":"` + simKey + `","status":""}`, ""},
		{"a status of a book's length is refused", `{"simId":"` + simKey + `","status":"` + strings.Repeat("a", 65) + `"}`, ""},
		{"two statuses are nobody's word", `{"simId":"` + simKey + `","status":"active","status":"suspended"}`, ""},
		{"a status in capitals beside it is nobody's word", `{"simId":"` + simKey + `","status":"active","STATUS":"suspended"}`, ""},
		{"F23: an error in a 200 is no SIM", `{"code":"SEM0001","message":"no"}`, ""},
		{"a list of one is no SIM", `[{"simId":"` + simKey + `","status":"active"}]`, ""},
		{"F24: HTML", `<html></html>`, ""},
		{"F24: nothing", ``, ""},
		{"F24: cut short", good[:len(good)/2], ""},
		{"F24: something behind it", good + "<!-- -->", ""},
		{"profiles that are no object are refused", `{"simId":"` + simKey + `","status":"active","profiles":[1]}`, ""},
	} {
		reading, err := decodeOne([]byte(row.body), simKey)
		switch {
		case row.state == "" && (err == nil || reading.State != nil):
			t.Errorf("%s: was taken for %+v, %v", row.sentence, reading.State, err)
		case row.state != "" && (err != nil || reading.State == nil || reading.State.State != row.state):
			t.Errorf("%s: got %+v, %v, want %s", row.sentence, reading.State, err, row.state)
		}
	}
}

func TestStateWords(t *testing.T) {
	for word, want := range map[string]simwarden.State{
		"shipped": simwarden.StateInventory, "ready": simwarden.StateInventory, "active": simwarden.StateActive,
		"inactive": simwarden.StateSuspended, "standby": simwarden.StateSuspended, "suspended": simwarden.StateSuspended,
		"terminated": simwarden.StateTerminated, "Active": simwarden.StateUnknown, "delivered": simwarden.StateUnknown,
	} {
		got := stateOf(word)
		if got.State != want || got.Raw != word || got.Pending {
			t.Errorf("%q reads as %+v, want %s", word, got, want)
		}
		if (got.Extended == simwarden.ExtendedTerminated) != (want == simwarden.StateTerminated) {
			t.Errorf("P5: %q has extended state %s", word, got.Extended)
		}
	}
}

func TestDecodeListOfSIMsWithProfiles(t *testing.T) {
	readings, err := decodeList(recorded(t, "two_profiles.json"))
	if err != nil || len(readings) != 3 {
		t.Fatalf("got %d, %v", len(readings), err)
	}
	for i, want := range []struct {
		key, iccid string
		state      simwarden.State
	}{
		{"8942310099000000010", "8942310099000000010", simwarden.StateSuspended}, // its own card, though another profile is active
		{"8942310099000000036", "8942310099000000036", simwarden.StateUnknown},
		{"8942310099000000044", "8942310099000000044", ""}, // no status: no state, and no harm to the others
	} {
		got := readings[i]
		var state simwarden.State
		if got.State != nil {
			state = got.State.State
		}
		if got.Key != want.key || got.ICCID.String() != want.iccid || state != want.state {
			t.Errorf("row %d: got %+v, want %+v", i, got, want)
		}
	}
}

func TestSearchComparesWholeNumbers(t *testing.T) {
	body := recorded(t, "two_profiles.json")
	for _, row := range []struct {
		sentence, iccid, key string
		want                 error
	}{
		{"its card", "8942310099000000010", "8942310099000000010", nil},
		{"its card without the check digit (I6)", "894231009900000001", "8942310099000000010", nil},
		{"its second profile", "8942310099000000028", "8942310099000000010", nil},
		{"a card that is not there", "8942310099000000051", "", errNotAmong},
		{"a SIM without a status", "8942310099000000044", "", errNoStatus},
	} {
		found, err := decodeSearch(body, simwarden.MustParseICCID(row.iccid))
		if found.reading.Key != row.key || !errors.Is(err, row.want) {
			t.Errorf("%s: got %q, %v, want %q, %v", row.sentence, found.reading.Key, err, row.key, row.want)
		}
	}
	twice := `[{"simId":"a","status":"active","profiles":{"x":{"iccid":"8942310099000000010"}}},{"simId":"b","status":"active","profiles":{"x":{"iccid":"8942310099000000010"}}}]`
	if _, err := decodeSearch([]byte(twice), simwarden.MustParseICCID(simKey)); !errors.Is(err, errManySIMs) {
		t.Errorf("F33: a collision gave %v", err)
	}
}

func TestDecodeUsage(t *testing.T) {
	startAt, endAt := carrier.MonthUTC(time.Date(2026, time.March, 14, 0, 0, 0, 0, time.UTC))
	row := func(unix, traffic string) string {
		return `[{"unixtime":` + unix + `,"dataTrafficStatsMap":` + traffic + `}]`
	}
	for _, c := range []struct {
		sentence, body string
		want           int64 // -1: refused
	}{
		{"upload and download of all classes of this month", string(recorded(t, "stats.json")), 573_000},
		{"no row is nothing used", `[]`, 0},
		{"a month without traffic is nothing used", row("1772323200", `{}`), 0},
		{"another month's row does not count", row("1769904000", `{"s":{"uploadByteSizeTotal":5}}`), 0},
		{"milliseconds are understood", row("1772323200000", `{"s":{"uploadByteSizeTotal":5}}`), 5},
		{"a negative figure is refused", row("1772323200", `{"s":{"uploadByteSizeTotal":-5}}`), -1},
		{"half a byte is refused", row("1772323200", `{"s":{"uploadByteSizeTotal":5.5}}`), -1},
		{"a sum beyond int64 is refused", row("1772323200", `{"s":{"uploadByteSizeTotal":9223372036854775807,"downloadByteSizeTotal":1}}`), -1},
		{"a class without figures is refused", row("1772323200", `{"s":{}}`), -1},
		{"a class that is there twice is refused", row("1772323200", `{"s":{"uploadByteSizeTotal":1},"s":{"uploadByteSizeTotal":2}}`), -1},
		{"a row without a time is refused", `[{"dataTrafficStatsMap":{"s":{"uploadByteSizeTotal":5}}}]`, -1},
		{"a row without traffic is refused", `[{"unixtime":1772323200}]`, -1},
		{"two rows for the month are refused", `[{"unixtime":1772323200,"dataTrafficStatsMap":{}},{"unixtime":1772323200,"dataTrafficStatsMap":{}}]`, -1},
		{"F23: an error in a 200 is refused", `{"code":"X","message":"no"}`, -1},
	} {
		got, err := decodeUsage([]byte(c.body), startAt, endAt)
		if c.want < 0 != (err != nil) || err == nil && got != c.want {
			t.Errorf("U1: %s: got %d, %v, want %d", c.sentence, got, err, c.want)
		}
	}
}

func TestDecodeLogin(t *testing.T) {
	for body, ok := range map[string]bool{
		`{"apiKey":"api-1","token":"t","operatorId":"OP1"}`: true,
		`{"apiKey":"api-1"}`:                   false,
		`{"apiKey":"","token":""}`:             false,
		`{"apiKey":1,"token":2}`:               false,
		`{"apiKey":"a\r\nX: y","token":"t"}`:   false,
		`{"apiKey":"a","token":"t","Token":1}`: false,
		`[]`:                                   false,
	} {
		if _, err := decodeLogin([]byte(body)); (err == nil) != ok {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// F34, F35: those who wait for a login share what came of it.
func TestTokensShareAFailedLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logins := 0
		release := make(chan struct{})
		tokens := newTokens(time.Now, func(context.Context) (*token, error) {
			logins++
			<-release
			return nil, &carrier.Error{Operation: simwarden.OpToken, HTTPStatus: 401}
		})
		var wait sync.WaitGroup
		errs := make([]error, 32)
		for i := range errs {
			wait.Go(func() { _, _, errs[i] = tokens.get(t.Context()) })
		}
		synctest.Wait() // one logs in, the others wait
		close(release)
		wait.Wait()
		if logins != 1 {
			t.Errorf("%d logins for 32 at once with a wrong password: carriers lock accounts", logins)
		}
		seen := make(map[*carrier.Error]bool)
		for _, err := range errs {
			var e *carrier.Error
			if !errors.As(err, &e) || e.HTTPStatus != 401 || seen[e] {
				t.Errorf("got %v, shared: %v; each wants an error of its own", err, seen[e])
			}
			seen[e] = true
		}
		if _, _, err := tokens.get(t.Context()); err == nil || logins != 2 {
			t.Errorf("a later call gave %v after %d logins: it asks anew", err, logins)
		}
	})
}

// F34: one caller's ended context is not the others' failure.
func TestTokensOutliveTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logins := 0
		tokens := newTokens(time.Now, func(ctx context.Context) (*token, error) {
			if logins++; logins > 1 {
				return &token{value: "t", endsAt: time.Now().Add(time.Hour)}, nil
			}
			<-ctx.Done()
			return nil, &carrier.Error{Operation: simwarden.OpToken, Err: ctx.Err()}
		})
		ctx, cancel := context.WithCancel(t.Context())
		var wait sync.WaitGroup
		var leader, follower error
		wait.Go(func() { _, _, leader = tokens.get(ctx) })
		synctest.Wait()
		wait.Go(func() { _, _, follower = tokens.get(t.Context()) })
		synctest.Wait()
		ended, end := context.WithCancel(t.Context())
		end()
		if _, _, err := tokens.get(ended); !errors.Is(err, context.Canceled) {
			t.Errorf("waiting in an ended context gave %v", err)
		}
		cancel()
		wait.Wait()
		if !errors.Is(leader, context.Canceled) || follower != nil || logins != 2 {
			t.Errorf("leader %v, follower %v, logins %d", leader, follower, logins)
		}
		time.Sleep(time.Hour - tokenMargin) //nolint:forbidigo // it passes at once, in the bubble's time
		if tok, _, _ := tokens.look(); tok != nil {
			t.Error("a token near its end is still used")
		}
	})
}

func FuzzDecodeOne(f *testing.F) {
	f.Add(recorded(f, "sim.json"))
	f.Add([]byte(`{"simId":"` + simKey + `","status":"suspended"}`))
	f.Add([]byte(`{"simId":"` + simKey + `","Status":"suspended"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		reading, err := decodeOne(body, simKey)
		if err == nil && (reading.State == nil || reading.Key != simKey || stateOf(reading.State.Raw) != *reading.State) {
			t.Errorf("%q reads as %+v", body, reading)
		}
		if err != nil && reading.State != nil {
			t.Errorf("%q gives a state beside %v", body, err)
		}
	})
}

func FuzzDecodeList(f *testing.F) {
	f.Add(recorded(f, "two_profiles.json"))
	f.Add([]byte(`[{"simId":8942310099000000010,"status":"active","profiles":{"x":null}}]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		readings, err := decodeList(body)
		if err != nil && readings != nil {
			t.Errorf("%q gives readings beside %v", body, err)
		}
		for _, r := range readings {
			if carrier.CheckKey(r.Key) != nil {
				t.Errorf("key %q could lead a request elsewhere", r.Key)
			}
		}
		if found, err := decodeSearch(body, simwarden.MustParseICCID(simKey)); err == nil && !found.has(simwarden.MustParseICCID(simKey)) {
			t.Errorf("%q was found to have %s", body, simKey)
		}
	})
}

func FuzzDecodeUsage(f *testing.F) {
	f.Add(recorded(f, "stats.json"))
	f.Add([]byte(`[{"unixtime":1772323200000,"dataTrafficStatsMap":{"s":{"uploadByteSizeTotal":"1","downloadByteSizeTotal":1e3}}}]`))
	startAt, endAt := carrier.MonthUTC(time.Date(2026, time.March, 14, 0, 0, 0, 0, time.UTC))
	f.Fuzz(func(t *testing.T, body []byte) {
		if n, err := decodeUsage(body, startAt, endAt); n < 0 || err != nil && n != 0 {
			t.Errorf("%q is %d bytes, %v", body, n, err)
		}
	})
}

func FuzzDecodeLogin(f *testing.F) {
	f.Add([]byte(`{"apiKey":"api-1","token":"t"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		tok, err := decodeLogin(body)
		if err == nil && (strings.ContainsAny(tok.apiKey+tok.value, "\r\n") || tok.value == "" || tok.apiKey == "") {
			t.Errorf("%q gives %+v", body, tok)
		}
	})
}

func BenchmarkDecodeList(b *testing.B) {
	one := strings.TrimSpace(string(recorded(b, "sim.json")))
	body := []byte("[" + strings.Repeat(one+",", pageSize-1) + one + "]")
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if readings, err := decodeList(body); err != nil || len(readings) != pageSize {
			b.Fatal(len(readings), err)
		}
	}
}
