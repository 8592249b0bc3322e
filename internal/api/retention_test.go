package api_test

import (
	"net/http"
	"testing"
)

func TestR1HowLongTablesAreKeptIsSetAndReported(t *testing.T) {
	w := newWorld(t)
	kept := func(got map[string]any, table string) any {
		for _, x := range got["tables"].([]any) {
			if x := x.(map[string]any); x["table"] == table {
				return x["keep_days"]
			}
		}
		return "absent"
	}
	if got := w.want(http.StatusOK, "GET", "/api/v1/retention", nil); kept(got, "command_record") != 0.0 || kept(got, "usage_day") != 762.0 {
		t.Errorf("by default: %v", got)
	}
	if got := w.want(http.StatusOK, "PUT", "/api/v1/retention/command_record", map[string]any{"keep_days": 1000, "reason": "disk"}); kept(got, "command_record") != 1000.0 {
		t.Errorf("set: %v", got)
	}
	if n := w.rows(`SELECT count(*) FROM audit WHERE action = 'retention_set' AND actor = 'token:anna' AND data->>'table' = 'command_record'`); n != 1 {
		t.Errorf("%d audit rows, want one (R2)", n)
	}
	w.want(http.StatusUnprocessableEntity, "PUT", "/api/v1/retention/command_record", map[string]any{"keep_days": 30, "reason": "disk"})
	w.want(http.StatusNotFound, "PUT", "/api/v1/retention/audit", map[string]any{"keep_days": 300, "reason": "disk"})
	if got := w.want(http.StatusOK, "GET", "/api/v1/doctor", nil); kept(got["retention"].(map[string]any), "command_record") != 1000.0 {
		t.Errorf("doctor does not show it: %v", got["retention"])
	}
}
