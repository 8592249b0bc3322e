package soracom

import (
	"slices"
	"strings"
	"testing"

	"github.com/simwarden/simwarden/carrier"
)

// ours is an event handler as we make it; each row below has one word of it changed.
const ours = `{"handlerId":"h1","name":"simwarden data limit 8981100000000000001","status":"active","targetSimId":"8981100000000000001",
	"ruleConfig":{"type":"SimMonthlyTotalTrafficRule","properties":{"limitTotalTrafficMegaByte":"100","inactiveTimeoutDateConst":"BEGINNING_OF_NEXT_DAY"}},
	"actionConfigList":[{"type":"SuspendAction","properties":{"executionDateTimeConst":"IMMEDIATELY"}}]}`

func TestP8LimitsAreToldFromHandlersOfOperators(t *testing.T) {
	held := carrier.Limit{Key: "8981100000000000001", Handle: "h1", LimitBytes: 100 << 20}
	altered := held
	altered.Altered = true
	nothing := carrier.Limit{Key: held.Key, Handle: "h1", Altered: true}
	for _, row := range []struct {
		name, from, to string
		want           []carrier.Limit
	}{
		{"ours, as it was made", "", "", []carrier.Limit{held}},
		{"ours, its threshold as a number", `"100"`, `100`, []carrier.Limit{held}},
		{"an operator's, of another name", "simwarden data limit 8981100000000000001", "speed limit", nil},
		{"an operator's copy of ours for another SIM", `"targetSimId":"8981100000000000001"`, `"targetSimId":"8981100000000000002"`, nil},
		{"an operator's copy of ours for a group", `"targetSimId"`, `"targetGroupId"`, nil},
		{"ours, switched off", `"active"`, `"inactive"`, []carrier.Limit{altered}},
		{"ours, made to change the speed", "SuspendAction", "ChangeSpeedClassAction", []carrier.Limit{altered}},
		{"ours, made to act later", `"IMMEDIATELY"`, `"AFTER_ONE_DAY"`, []carrier.Limit{altered}},
		{"ours, made a daily limit", "SimMonthlyTotalTrafficRule", "SimDailyTotalTrafficRule", []carrier.Limit{altered}},
		{"ours, with no threshold", `"100"`, `null`, []carrier.Limit{nothing}},
	} {
		t.Run(row.name, func(t *testing.T) {
			text := strings.Replace(ours, row.from, row.to, 1)
			if row.from != "" && text == ours {
				t.Fatal("the row changes nothing")
			}
			got, err := decodeLimits([]byte("[" + text + "]"))
			if err != nil || !slices.Equal(got, row.want) {
				t.Errorf("read as %+v, %v, want %+v", got, err, row.want)
			}
		})
	}
}

func TestP8ALimitWithoutAnIdIsAnAnswerNotUnderstood(t *testing.T) {
	for _, text := range []string{`{}`, `[1]`, "[" + strings.Replace(ours, `"h1"`, `""`, 1) + "]"} {
		if got, err := decodeLimits([]byte(text)); err == nil {
			t.Errorf("%s is read as %+v", text, got)
		}
	}
}
