package onelink

import (
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
)

// FuzzDecode holds every decoder to its word whatever comes: no panic, no state without an error-free
// answer, no negative usage, no key that could lead a request elsewhere.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"status":"0","message":"正确","result":[{"cardStatus":"4","lastChangeDate":"20260314172653"}]}`,
		`{"status":"0","message":"正确","result":[{"platformType":"CT","stopReason":"000000002000","shutdownReasonDesc":"风险停机"}]}`,
		`{"status":"0","message":"正确","result":[{"realNameStatus":"0","reason":"01"}]}`,
		`{"status":"0","message":"正确","result":[{"dataAmount":"1048576.5","apnUseAmountList":[]}]}`,
		`{"status":"0","message":"正确","result":[{"deadLine":"20260313","dataAmountList":[{"msisdn":"1440000000001","dataAmount":"7"}]}]}`,
		`{"status":"0","message":"正确","result":[{"totalCount":"1","groupList":[{"groupId":"3500000001"}]}]}`,
		`{"status":"0","message":"正确","result":[{"memberInfoList":[{"iccid":"898604A4192110001234"}]}]}`,
		`{"status":"0","message":"正确","result":[{"orderNum":"50000010000000000001","status":"inProgress"}]}`,
		`{"status":"0","message":"正确","result":[{"jobStatus":"3","resultList":[{"resultId":"1440000000001","status":"12047","message":"x"}]}]}`,
		`{"status":"0","message":"正确","result":[{"token":"abc","ttl":"7200"}]}`,
		`{"status":"12141","message":"当前卡为风险停机状态,仅支持风险复机","result":[]}`,
		`{"status":12021}`,
	} {
		f.Add([]byte(seed))
	}
	c := &conn{}
	f.Fuzz(func(t *testing.T, body []byte) {
		result, err := c.open(&carrier.Answer{Status: 200, Body: body}, simwarden.OpQueryState, carrier.Token{})
		if err != nil {
			return
		}
		if code, _, err := decodeStatus(result); err == nil {
			if state, _ := stateOf(code); state.State == "" || state.Extended == "" || state.Raw == "" {
				t.Errorf("%q reads as %+v", code, state)
			}
		}
		if reason, description, err := decodeReason(result); err == nil && whyStopped(reason, description) == "" {
			t.Errorf("%q reads as no reason", reason)
		}
		if name, err := decodeRealName(result); err == nil && (name.Status == "" || name.Raw == "") {
			t.Errorf("the real-name status is %+v", name)
		}
		if used, err := decodeUsage(result); err == nil && used < 0 {
			t.Errorf("usage of %d bytes", used)
		}
		if rows, err := decodeUsageRows(result); err == nil {
			for msisdn, used := range rows.bytes {
				if used < 0 {
					t.Errorf("usage of %s is %d bytes", msisdn, used)
				}
			}
		}
		keys, _ := decodeMembers(result)
		cards, _ := decodeCards(result)
		for _, key := range append(keys, cards...) {
			if carrier.CheckKey(key) != nil {
				t.Errorf("key %q", key)
			}
		}
		if ids, err := decodeGroups(result); err == nil && len(ids) > 0 {
			c := cursor{groupPage: 1, memberPage: 1, groups: ids}
			if got, err := parseCursor(c.String()); len(c.String()) <= maxCursorBytes && (err != nil || got.String() != c.String()) {
				t.Errorf("cursor %s reads as %s, %v", c, got, err)
			}
		}
		if state, err := decodeOrder(result, "1"); err == nil && state.Err != nil && !state.Finished {
			t.Errorf("an order has failed and is not over: %+v", state)
		}
		if state, err := decodeJob(result, "1440000000001"); err == nil && state.Err != nil && !state.Finished {
			t.Errorf("a job has failed and is not over: %+v", state)
		}
		at := time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC)
		if tok, err := decodeLogin(result, at); err == nil && (tok.Value == "" || !tok.EndsAt.After(at)) {
			t.Errorf("a login gave %+v", tok)
		}
	})
}

// FuzzCursor holds that a cursor that is taken is one that is written so.
func FuzzCursor(f *testing.F) {
	f.Add("1.1....")
	f.Add("2.17.351.898604A4192110001234.351_352")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parseCursor(text)
		if err != nil || text == "" {
			return
		}
		again, err := parseCursor(c.String())
		if err != nil || again.String() != c.String() {
			t.Errorf("%q reads as %s, which reads as %s, %v", text, c, again, err)
		}
	})
}
