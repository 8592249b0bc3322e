package api_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/simwarden/simwarden/internal/api"
)

func TestPagesOfManySIMsHaveNoGapAndNoRepeat(t *testing.T) {
	w := newWorld(t)
	const n = 1200
	w.sims(w.account("acme", nil), 1, n)
	for _, limit := range []int{37, 400, 500} { // 1,200 is three whole pages of 400: the third says that it is the last
		seen := map[string]int{}
		cursor, pages := "", 0
		for {
			page := w.want(http.StatusOK, "GET", fmt.Sprintf("/api/v1/sims?limit=%d&cursor=%s", limit, cursor), nil)
			pages++
			for _, item := range page["items"].([]any) {
				seen[item.(map[string]any)["iccid"].(string)]++
			}
			next, more := page["next_cursor"].(string)
			if !more {
				break
			}
			if cursor = next; pages > n {
				t.Fatal("the pages do not end")
			}
		}
		if want := (n + limit - 1) / limit; pages != want {
			t.Errorf("%d pages of %d, want %d", pages, limit, want)
		}
		for i := 1; i <= n; i++ {
			if got := seen[numbered(i).String()]; got != 1 {
				t.Errorf("pages of %d: SIM %d came %d times", limit, i, got)
			}
		}
		if len(seen) != n {
			t.Errorf("pages of %d: %d SIMs, want %d", limit, len(seen), n)
		}
	}
}

func TestPagesGoOnWhileRowsAreAdded(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", nil)
	w.sims(a, 1, 10)
	first, err := w.service.SIMs(t.Context(), api.SIMQuery{Limit: 5})
	if err != nil {
		t.Fatal(err)
	}
	w.sims(a, 100, 3)
	second, err := w.service.SIMs(t.Context(), api.SIMQuery{Limit: 5, Cursor: first.Next})
	if err != nil {
		t.Fatal(err)
	}
	if got := second.Items[0].ICCID; got != numbered(6) {
		t.Errorf("the second page begins with %s, want the sixth", got)
	}
}
