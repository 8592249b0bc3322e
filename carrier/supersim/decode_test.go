package supersim

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

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

const sid = "HS00000000000000000000000000000001"

func TestDecodeOneSIM(t *testing.T) {
	for _, row := range []struct {
		sentence, body string
		state          simwarden.State // empty: refused
		pending        bool
	}{
		{"inactive is suspended", `{"sid":"` + sid + `","status":"inactive"}`, simwarden.StateSuspended, false},
		{"scheduled is pending, and says neither from what nor to what", `{"sid":"` + sid + `","status":"scheduled"}`, simwarden.StateUnknown, true},
		{"a word that nobody knows is unknown", `{"sid":"` + sid + `","status":"retired"}`, simwarden.StateUnknown, false},
		{"unknown members are passed over", `{"x":{"status":"active"},"sid":"` + sid + `","unique_name":"status","status":"new"}`, simwarden.StateInventory, false},
		{"another SIM's object is refused", `{"sid":"HS00000000000000000000000000000002","status":"active"}`, "", false},
		{"a number for a sid is refused", `{"sid":34,"status":"active"}`, "", false},
		{"a number for a status is refused", `{"sid":"` + sid + `","status":8}`, "", false},
		{"no status is no state", `{"sid":"` + sid + `"}`, "", false},
		{"two statuses are nobody's word", `{"sid":"` + sid + `","status":"active","Status":"inactive"}`, "", false},
		{"F23: an error in a 200 is no SIM", `{"code":20404,"message":"no","status":404}`, "", false},
		{"F24: HTML", `<html></html>`, "", false},
		{"F24: nothing", ``, "", false},
		{"F24: something behind it", `{"sid":"` + sid + `","status":"active"}x`, "", false},
	} {
		reading, err := decodeOne([]byte(row.body), sid)
		switch {
		case row.state == "" && (err == nil || reading.State != nil):
			t.Errorf("%s: was taken for %+v, %v", row.sentence, reading.State, err)
		case row.state != "" && (err != nil || reading.State == nil || reading.State.State != row.state || reading.State.Pending != row.pending):
			t.Errorf("%s: got %+v, %v, want %s", row.sentence, reading.State, err, row.state)
		}
	}
}

func TestDecodeListOfSIMs(t *testing.T) {
	readings, next, err := decodeList(recorded(t, "sims.json"))
	if err != nil || len(readings) != 4 {
		t.Fatalf("got %d, %v", len(readings), err)
	}
	for i, want := range []struct {
		iccid, raw string
		state      simwarden.State
	}{
		{"89883079900000000018", "inactive", simwarden.StateSuspended},
		{"89883079900000000026", "scheduled", simwarden.StateUnknown}, // F33: its ICCID is a JSON number
		{"", "retired", simwarden.StateUnknown},                       // its ICCID's check digit does not fit: the SID names it
		{"", "", ""},
	} {
		got := readings[i]
		var raw string
		var state simwarden.State
		if got.State != nil {
			raw, state = got.State.Raw, got.State.State
		}
		if got.ICCID.String() != want.iccid || raw != want.raw || state != want.state {
			t.Errorf("row %d: got %+v %s %s, want %+v", i, got, raw, state, want)
		}
	}
	cursor, err := nextCursor(next, "", url.Values{"PageSize": {"1000"}})
	if err != nil || strings.Contains(cursor, "twilio") || !strings.Contains(cursor, "PageToken=PAHS") {
		t.Errorf("the cursor is %q, %v: a query for our own host", cursor, err)
	}
	query, err := pageQuery(cursor, nil)
	if err != nil || query.Get("Page") != "1" || query.Get("PageSize") != "1000" {
		t.Errorf("the cursor asks for %v, %v", query, err)
	}
	for _, body := range []string{`{"sims":[]}`, `{"meta":{}}`, `{"sims":{},"meta":{}}`, `{"sims":[],"meta":{"next_page_url":7}}`, `[]`} {
		if readings, _, err := decodeList([]byte(body)); err == nil {
			t.Errorf("F24: %s was taken for a list of %d", body, len(readings))
		}
	}
}

func TestCursorsLeadForward(t *testing.T) {
	first := url.Values{"PageSize": {"249"}, "StartTime": {"2026-03-01T00:00:00Z"}}
	for _, row := range []struct {
		sentence, link, cursor string
		want                   string
		ok                     bool
	}{
		{"no link is the end", "", "", "", true},
		{"what was asked goes along", "https://elsewhere.invalid/v1/x?PageToken=T", "", "PageSize=249&PageToken=T&StartTime=2026-03-01T00%3A00%3A00Z", true},
		{"other parameters of the link do not", "/v1/x?PageToken=T&AccountSid=AC1", "", "PageSize=249&PageToken=T&StartTime=2026-03-01T00%3A00%3A00Z", true},
		{"a link without a page leads nowhere", "https://supersim.twilio.com/v1/Sims", "", "", false},
		{"a link to this page leads nowhere", "/v1/x?PageToken=T", "PageSize=249&PageToken=T&StartTime=2026-03-01T00%3A00%3A00Z", "", false},
		{"a link that is no URL", "http://[::1", "", "", false},
		{"a token without end", "/v1/x?PageToken=" + strings.Repeat("T", 4000), "", "", false},
	} {
		got, err := nextCursor(row.link, row.cursor, first)
		if got != row.want || (err == nil) != row.ok {
			t.Errorf("F32: %s: got %q, %v", row.sentence, got, err)
		}
	}
	for _, cursor := range []string{"x", "Page=1", "%zz", strings.Repeat("PageSize=1&", 300)} {
		if _, err := pageQuery(cursor, nil); !errors.Is(err, errCursor) {
			t.Errorf("cursor %.20q: %v", cursor, err)
		}
	}
}

func TestDecodeUsage(t *testing.T) {
	rows, next, err := decodeUsage(recorded(t, "usage.json"))
	if err != nil || next != "" || len(rows) != 2 || rows[0] != (usageRow{sid, 300_000}) || rows[1].bytes != 11 {
		t.Fatalf("got %+v, %q, %v", rows, next, err)
	}
	for _, row := range []struct{ sentence, record string }{
		{"a row of no SIM", `{"data_total":1}`},
		{"a SID that is a number", `{"sim_sid":34,"data_total":1}`},
		{"a SID that could lead elsewhere", `{"sim_sid":"../x","data_total":1}`},
		{"no figure", `{"sim_sid":"` + sid + `"}`},
		{"a negative figure", `{"sim_sid":"` + sid + `","data_total":-1}`},
		{"half a byte", `{"sim_sid":"` + sid + `","data_total":0.5}`},
		{"beyond int64", `{"sim_sid":"` + sid + `","data_upload":9223372036854775807,"data_download":1}`},
		{"one SIM twice", `{"sim_sid":"` + sid + `","data_total":1},{"sim_sid":"` + sid + `","data_total":2}`},
	} {
		body := `{"usage_records":[` + row.record + `],"meta":{"next_page_url":null}}`
		if rows, _, err := decodeUsage([]byte(body)); err == nil || rows != nil {
			t.Errorf("U1: %s was taken for %+v", row.sentence, rows)
		}
	}
}

func FuzzDecodeOne(f *testing.F) {
	f.Add([]byte(`{"sid":"` + sid + `","iccid":"89883079900000000018","status":"inactive"}`))
	f.Add([]byte(`{"sid":"` + sid + `","STATUS":"inactive"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		reading, err := decodeOne(body, sid)
		if err == nil && (reading.State == nil || reading.Key != sid || stateOf(reading.State.Raw) != *reading.State) {
			t.Errorf("%q reads as %+v", body, reading)
		}
		if err != nil && reading.State != nil {
			t.Errorf("%q gives a state beside %v", body, err)
		}
	})
}

func FuzzDecodeList(f *testing.F) {
	f.Add(recorded(f, "sims.json"))
	f.Fuzz(func(t *testing.T, body []byte) {
		readings, link, err := decodeList(body)
		if err != nil && (readings != nil || link != "") {
			t.Errorf("%q gives readings beside %v", body, err)
		}
		for _, r := range readings {
			if carrier.CheckKey(r.Key) != nil {
				t.Errorf("key %q could lead a request elsewhere", r.Key)
			}
		}
		cursor, err := nextCursor(link, "", url.Values{"PageSize": {"1000"}})
		if err == nil && cursor != "" {
			if _, err := pageQuery(cursor, nil); err != nil {
				t.Errorf("cursor %q is not taken back: %v", cursor, err)
			}
		}
	})
}

func FuzzDecodeUsage(f *testing.F) {
	f.Add(recorded(f, "usage.json"))
	f.Fuzz(func(t *testing.T, body []byte) {
		rows, _, err := decodeUsage(body)
		if err != nil && rows != nil {
			t.Errorf("%q gives rows beside %v", body, err)
		}
		for _, r := range rows {
			if r.bytes < 0 || carrier.CheckKey(r.key) != nil {
				t.Errorf("%q gives %+v", body, r)
			}
		}
	})
}

func BenchmarkDecodeList(b *testing.B) {
	one := `{"sid":"` + sid + `","unique_name":null,"account_sid":"AC00000000000000000000000000000001","iccid":"89883079900000000018","status":"active","fleet_sid":"HF00000000000000000000000000000001","date_created":"2025-07-01T00:00:00Z","date_updated":"2026-03-01T00:00:00Z","url":"https://supersim.twilio.com/v1/Sims/` + sid + `","links":{"billing_periods":"https://supersim.twilio.com/v1/Sims/` + sid + `/BillingPeriods"}}`
	body := []byte(`{"sims":[` + strings.Repeat(one+",", listPageSize-1) + one + `],"meta":{"next_page_url":null}}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if readings, _, err := decodeList(body); err != nil || len(readings) != listPageSize {
			b.Fatal(len(readings), err)
		}
	}
}
