package onelink

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
)

func result(t testing.TB, text string) carrier.JSON {
	t.Helper()
	doc, err := carrier.ParseJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestOpenTakesTheResultOutOfTheEnvelope(t *testing.T) {
	c := &conn{cfg: carrier.Config{Credentials: map[string]string{fieldPassword: "hidden-word"}}}
	for _, row := range []struct {
		sentence, body string
		code           string // of the error; "-": not understood; empty: good
	}{
		{"status 0 is success", `{"status":"0","message":"正确","result":[]}`, ""},
		{"a code is an error", `{"status":"12047","message":"号码已停机","result":[]}`, "12047"},
		{"F23: a code may come as a number", `{"status":12021,"message":"token"}`, "12021"},
		{"F23: success as a number is not success", `{"status":0,"result":[{}]}`, "-"},
		{"F23: true is not success", `{"status":true,"result":[{}]}`, "-"},
		{"F23: 0.0 is not success", `{"status":0.0,"result":[{}]}`, "-"},
		{"F23: a status of \"00\" is a code", `{"status":"00","result":[{}]}`, "00"},
		{"no status is nobody's word", `{"message":"ok","result":[]}`, "-"},
		{"two statuses are nobody's word", `{"status":"0","status":"12021","result":[]}`, "-"},
		{"a Status beside the status is nobody's word", `{"status":"0","Status":"12021","result":[]}`, "-"},
		{"success without a result is not understood", `{"status":"0","message":"正确"}`, "-"},
		{"F24: HTML", `<html></html>`, "-"},
		{"F24: nothing", ``, "-"},
		{"F24: something behind it", `{"status":"0","result":[]}<!-- -->`, "-"},
	} {
		_, err := c.open(&carrier.Answer{Status: 200, Body: []byte(row.body)}, simwarden.OpQueryState, carrier.Token{Value: "hidden-token"})
		var e *carrier.Error
		switch {
		case row.code == "" && err != nil, row.code != "" && !errors.As(err, &e):
			t.Errorf("%s: got %v", row.sentence, err)
		case row.code == "-" && !e.BadAnswer, row.code != "" && row.code != "-" && (e.BadAnswer || e.Code != row.code):
			t.Errorf("%s: got code %q, bad answer %v", row.sentence, e.Code, e.BadAnswer)
		}
	}
	_, err := c.open(&carrier.Answer{Status: 200, Body: []byte(`{"status":"12004","message":"no: hidden-word hidden-token","result":[]}`)}, simwarden.OpToken, carrier.Token{Value: "hidden-token"})
	if err == nil || strings.Contains(err.Error(), "hidden") {
		t.Errorf("V20: the error is %v", err)
	}
}

func TestWhyASIMIsStopped(t *testing.T) {
	for _, row := range []struct {
		sentence, reason, description string
		want                          simwarden.ExtendedState
	}{
		{"by own request", "000000002000", "", simwarden.ExtendedNone},
		{"by own request, in one direction", "000000001000", "", simwarden.ExtendedNone},
		{"by credit control", "000020000000", "", simwarden.ExtendedArrears},
		{"by own request and by credit control", "000020002000", "", simwarden.ExtendedArrears},
		{"because the product has expired", "200000000000", "", simwarden.ExtendedOther},
		{"by the operator", "000000000020", "", simwarden.ExtendedOther},
		{"by the operator and by credit control", "000020000020", "", simwarden.ExtendedOther},
		{"by a position that nobody knows", "002000000000", "", simwarden.ExtendedOther},
		{"by own request, and a position that nobody knows", "000000002002", "", simwarden.ExtendedOther},
		{"by nothing: it was started meanwhile", "000000000000", "", simwarden.ExtendedNone},
		{"by risk control, as its description says (S8)", "000000000020", "风险停机", simwarden.ExtendedRiskSuspended},
		{"by own request and by risk control", "000000002000", "主动停机,风险管控", simwarden.ExtendedRiskSuspended},
		{"by eleven digits", "00000000200", "", simwarden.ExtendedOther},
		{"by thirteen digits", "0000000020000", "", simwarden.ExtendedOther},
		{"by letters", "00000000200x", "", simwarden.ExtendedOther},
		{"by nothing that is told", "", "", simwarden.ExtendedOther},
	} {
		if got := whyStopped(row.reason, row.description); got != row.want {
			t.Errorf("stopped %s: got %s, want %s", row.sentence, got, row.want)
		}
	}
}

func TestStatusCodesOfBothPlatforms(t *testing.T) {
	for code, want := range map[string]struct {
		state    simwarden.State
		stopped  bool
		platform platform
	}{
		"1": {simwarden.StateInventory, false, platformCT}, "2": {simwarden.StateActive, false, platformCT},
		"4": {simwarden.StateSuspended, true, platformCT}, "6": {simwarden.StateTestReady, false, platformCT},
		"7": {simwarden.StateInventory, false, platformCT}, "8": {simwarden.StateTerminated, false, platformCT},
		"9": {simwarden.StateTerminated, false, platformCT}, "3": {simwarden.StateUnknown, false, platformCT},
		"00": {simwarden.StateActive, false, platformPB}, "01": {simwarden.StateSuspended, true, platformPB},
		"02": {simwarden.StateSuspended, true, platformPB}, "03": {simwarden.StateTerminated, false, platformPB},
		"04": {simwarden.StateTerminated, false, platformPB}, "05": {simwarden.StateUnknown, false, platformPB},
		"06": {simwarden.StateInventory, false, platformPB}, "07": {simwarden.StateInventory, false, platformPB},
		"99": {simwarden.StateUnknown, false, platformPB}, "active": {simwarden.StateUnknown, false, platformUnknown},
	} {
		got, stopped := stateOf(code)
		if got.State != want.state || stopped != want.stopped || got.Raw != code || platformOf(code) != want.platform {
			t.Errorf("%q reads as %+v, stopped %v, want %+v", code, got, stopped, want)
		}
		if (got.Extended == simwarden.ExtendedTerminated) != (want.state == simwarden.StateTerminated) {
			t.Errorf("P5: %q has extended state %s", code, got.Extended)
		}
		if want.state == simwarden.StateUnknown && got.Extended != simwarden.ExtendedOther {
			t.Errorf("%q, which nobody knows, has extended state %s", code, got.Extended)
		}
	}
}

func TestKilobytes(t *testing.T) {
	for _, row := range []struct {
		text string
		want int64 // -1: refused
	}{
		{"0", 0}, {"1", 1024}, {"1048576", 1 << 30}, {" 7 ", 7168}, {"1.5", 1536}, {"0.001", 1}, {"0.0009", 0},
		{"1.999999999", 2047}, {"9007199254740990", 9007199254740990 * 1024}, {"9007199254740992", -1},
		{"-1", -1}, {"+1", -1}, {"1e3", -1}, {"0x10", -1}, {"1.", -1}, {".5", -1}, {"1.5KB", -1}, {"1,5", -1}, {"", -1}, {"NaN", -1}, {"1_000", -1},
	} {
		got, err := kilobytes(row.text)
		if (err != nil) != (row.want < 0) || err == nil && got != row.want {
			t.Errorf("U1: %q KB are %d bytes, %v, want %d", row.text, got, err, row.want)
		}
	}
	if n, err := kilobytes("9007199254740990.999999"); err != nil || n <= 0 {
		t.Errorf("U1: the largest figure is %d, %v", n, err)
	}
}

func TestUsageOfASIMThatHasUsedNothing(t *testing.T) {
	for text, want := range map[string]int64{
		`[{"dataAmount":"","apnUseAmountList":[]}]`: 0, `[{"dataAmount":" "}]`: 0, `[{"dataAmount":"12"}]`: 12288,
	} {
		if got, err := decodeUsage(result(t, text)); err != nil || got != want {
			t.Errorf("%s is %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{`[]`, `[{}]`, `[{"dataAmount":null}]`, `[{"dataAmount":12}]`, `[{"dataAmount":"1"},{"dataAmount":"2"}]`, `{}`, `[7]`} {
		if got, err := decodeUsage(result(t, text)); err == nil {
			t.Errorf("%s was taken for %d bytes", text, got)
		}
	}
}

func TestBatchesOfUsageSayUpToWhenTheyCount(t *testing.T) {
	rows, err := decodeUsageRows(result(t, `[{"deadLine":"20260313","dataAmountList":[
		{"msisdn":"1440000000001","dataAmount":"2"},{"msisdn":"8613800000000","dataAmount":"3"},{"msisdn":"1440000000003","dataAmount":" "}]}]`))
	if err != nil {
		t.Fatal(err)
	}
	if want := time.Date(2026, 3, 13, 16, 0, 0, 0, time.UTC); !rows.trueAt.Equal(want) {
		t.Errorf("it counts up to %v, want the midnight in UTC+8 that ends the 13th: %v", rows.trueAt, want)
	}
	if len(rows.bytes) != 2 || rows.bytes["1440000000001"] != 2048 || rows.bytes["13800000000"] != 3072 {
		t.Errorf("the rows are %v; a blank is no figure yet", rows.bytes)
	}
	for _, text := range []string{
		`[{"deadLine":"soon","dataAmountList":[]}]`,
		`[{"deadLine":"20260313","dataAmountList":[{"msisdn":"1","dataAmount":"2"},{"msisdn":"1","dataAmount":"2"}]}]`,
		`[{"deadLine":"20260313","dataAmountList":[{"dataAmount":"2"}]}]`,
		`[{"deadLine":"20260313","dataAmountList":{}}]`,
	} {
		if rows, err := decodeUsageRows(result(t, text)); err == nil {
			t.Errorf("%s was taken for %v", text, rows.bytes)
		}
	}
}

func TestOrdersAndJobs(t *testing.T) {
	for word, want := range map[string]carrier.JobState{
		"acknowledged": {}, "ready": {}, "future": {}, "inProgress": {}, "amending": {}, "suspended": {}, "cancelling": {},
		"completed": {Finished: true}, "somethingNew": {Finished: true},
	} {
		got, err := decodeOrder(result(t, `[{"orderNum":"77","status":"`+word+`"}]`), "77")
		if err != nil || got != want {
			t.Errorf("C7: an order that is %s is %+v, %v", word, got, err)
		}
	}
	for _, word := range []string{"failed", "aborted", "cancelled"} {
		got, err := decodeOrder(result(t, `[{"status":"`+word+`"}]`), "77")
		if err != nil || !got.Finished || got.Err == nil || got.Err.Code != codeOrderFailed {
			t.Errorf("C7: an order that is %s is %+v, %v", word, got, err)
		}
	}
	if got, err := decodeOrder(result(t, `[{"orderNum":"78","status":"completed"}]`), "77"); err == nil {
		t.Errorf("another order's answer was taken: %+v", got)
	}
	const rows = `,"resultList":[{"resultType":"1","resultId":"1440000000001","status":"0","message":"正确"},{"resultType":"1","resultId":"1440000000002","status":"12141","message":"风险停机"}]}]`
	for _, row := range []struct {
		sentence, body, msisdn string
		finished               bool
		code                   string
	}{
		{"a job that waits", `[{"jobStatus":"0"}]`, "1440000000001", false, ""},
		{"a job under way", `[{"jobStatus":"1","resultList":null}]`, "1440000000001", false, ""},
		{"a job that is done", `[{"jobStatus":"2"` + rows, "1440000000001", true, ""},
		{"a job that failed for another", `[{"jobStatus":"3"` + rows, "1440000000001", true, ""},
		{"a job that failed for this one", `[{"jobStatus":"3"` + rows, "1440000000002", true, "12141"},
		{"the same with the country before the number", `[{"jobStatus":"3"` + rows, "861440000000002", true, "12141"},
		{"a job that leaves this one out", `[{"jobStatus":"2"` + rows, "1440000000009", true, ""},
		{"a job of a SIM without a number", `[{"jobStatus":"3"` + rows, "", true, ""},
		{"a job that failed whole", `[{"jobStatus":"4"}]`, "1440000000001", true, codeOrderFailed},
	} {
		got, err := decodeJob(result(t, row.body), row.msisdn)
		code := ""
		if got.Err != nil {
			code = got.Err.Code
		}
		if err != nil || got.Finished != row.finished || code != row.code {
			t.Errorf("%s is %+v with code %q, %v", row.sentence, got, code, err)
		}
	}
}

func TestRowsComeUnderSeveralNames(t *testing.T) {
	for _, text := range []string{
		`[{"totalCount":"2","groupList":[{"groupId":"351"},{"groupId":"352"}]}]`,
		`[{"groupInfoList":[{"groupId":"351"},{"groupId":"352"},{"groupId":"351"}]}]`,
		`[{"groupId":"351","groupName":"x"},{"groupId":"352"}]`,
	} {
		if ids, err := decodeGroups(result(t, text)); err != nil || strings.Join(ids, " ") != "351 352" {
			t.Errorf("%s gives %v, %v", text, ids, err)
		}
	}
	for _, text := range []string{`[{"groupList":[{"groupId":"../x"}]}]`, `[{"groupList":[{"groupId":"a_b"}]}]`, `[{"groupList":[{}]}]`, `[{"groupList":[],"groupInfoList":[]}]`, `[{"groupList":{}}]`, `{}`} {
		if ids, err := decodeGroups(result(t, text)); err == nil {
			t.Errorf("%s was taken for %v", text, ids)
		}
	}
	iccids, err := decodeMembers(result(t, `[{"memberInfoList":[{"iccid":"898604A4192110001234","msisdn":"1440000000001"},{"iccid":"898604a4192110001235"}]}]`))
	if err != nil || len(iccids) != 2 || parse(iccids[0]).String() != "898604A4192110001234" || parse(iccids[1]).String() != "898604A4192110001235" {
		t.Errorf("I6: ICCIDs with letters read as %v, %v", iccids, err)
	}
	if found, err := decodeCards(result(t, `[{"status":"0","iccid":"898604A4192110001234"},{"status":"11011","iccid":""}]`)); err != nil || len(found) != 1 {
		t.Errorf("a batch with one that there is not gives %v, %v", found, err)
	}
}

func TestCursors(t *testing.T) {
	for _, c := range []cursor{
		{groupPage: 1, memberPage: 1},
		{groupPage: 3, memberPage: 17, firstGroup: "351", first: "898604A4192110001234", groups: []string{"351", "352"}},
	} {
		got, err := parseCursor(c.String())
		if err != nil || got.String() != c.String() {
			t.Errorf("%s reads as %s, %v", c, got, err)
		}
	}
	for _, text := range []string{".", "1.1..", "0.1...351", "1.0...351", "1.1...../x", "a.1...", "1.1...a/b", "1.1...351_", "-1.1...351", "1.1...351.7", strings.Repeat("9", 5000), "1000000.1...351"} {
		if got, err := parseCursor(text); err == nil {
			t.Errorf("%.40q was taken for %s", text, got)
		}
	}
}

func TestTransidsAreNewEachTimeAndShortEnough(t *testing.T) {
	ids := newTransids(strings.Repeat("9", maxAppID))
	at := time.Date(2026, 3, 31, 17, 5, 6, 0, time.UTC)
	seen := map[string]bool{}
	for range 10_000 {
		id := ids.at(at)
		if seen[id] || len(id) != maxTransid {
			t.Fatalf("%q has %d characters, seen before: %v", id, len(id), seen[id])
		}
		if !strings.HasPrefix(id, strings.Repeat("9", maxAppID)+"20260401010506") {
			t.Fatalf("%q lacks the time in UTC+8", id)
		}
		seen[id] = true
	}
	ids.next.Store(sequences - 1)
	if id := ids.at(at); !strings.HasSuffix(id, "00000000") {
		t.Errorf("after the last number comes %q", id)
	}
}

func TestLoginsSayHowLongTheyLive(t *testing.T) {
	at := time.Date(2026, 3, 31, 17, 5, 6, 0, time.UTC)
	for text, life := range map[string]time.Duration{
		`[{"token":"abc","ttl":"60"}]`: time.Minute, `[{"token":"abc","ttl":60}]`: time.Minute, `[{"token":"abc"}]`: tokenLife,
		`[{"token":"abc","ttl":"-1"}]`: tokenLife, `[{"token":"abc","ttl":"999999"}]`: tokenLife, `[{"token":"abc","ttl":"soon"}]`: tokenLife,
	} {
		if tok, err := decodeLogin(result(t, text), at); err != nil || tok.Value != "abc" || tok.EndsAt.Sub(at) != life {
			t.Errorf("%s lives %v, %v, want %v", text, tok.EndsAt.Sub(at), err, life)
		}
	}
	for _, text := range []string{`[]`, `[{}]`, `[{"token":""}]`, `[{"token":7}]`, `[{"token":"a b"}]`, `[{"token":"` + strings.Repeat("x", 5000) + `"}]`} {
		if _, err := decodeLogin(result(t, text), at); err == nil {
			t.Errorf("%.60s was taken for a login", text)
		}
	}
}
