package api_test

import (
	"net/http"
	"testing"
)

func TestE12APlanWithAGuardBandIsAddedAndReported(t *testing.T) {
	w := newWorld(t)
	body := map[string]any{"code": "banded", "kind": "main", "allowance_bytes": 1000, "validity_unit": "days", "validity_count": 30,
		"reset": "none", "zone": "UTC", "guard_band": map[string]any{"bytes": 0}}
	got := w.want(http.StatusCreated, "POST", "/api/v1/plans", body)
	if got["guard_band_bytes"] != 0.0 || got["guard_band_probability"] != 0.95 {
		t.Errorf("a guard band of nothing is promised with 0.95: %v", got)
	}
	body["code"], body["guard_band"] = "other", map[string]any{"bytes": 5, "probability": 0.99}
	w.want(http.StatusCreated, "POST", "/api/v1/plans", body)
	list := w.want(http.StatusOK, "GET", "/api/v1/plans", nil)["items"].([]any)
	for i, want := range []float64{0.95, 0.99} {
		if p := list[i].(map[string]any); p["guard_band_probability"] != want {
			t.Errorf("plan %v is promised with %v, want %v", p["code"], p["guard_band_probability"], want)
		}
	}
	body["code"], body["allowance_bytes"] = "unlimited", -1
	w.want(http.StatusUnprocessableEntity, "POST", "/api/v1/plans", body)
	if list := w.want(http.StatusOK, "GET", "/api/v1/reports/guard-bands", nil)["items"].([]any); len(list) != 0 {
		t.Errorf("nothing was stopped, and the report has %v", list)
	}
	w.want(http.StatusNotFound, "GET", "/api/v1/reports/guard-bands?account=nobody", nil)
}
